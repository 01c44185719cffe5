// Programs on wrappers of tensors (DTensor) run step by step in Python, since wrappers decide what an operator does.
// The runs of steps on plain tensors between those are programs of their own, with tapes and recorded backwards. Runs
// on distributed tensors that take and give plain ones are tapes on local tensors (local_run.h).
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "native/local_run.h"
#include "tape/program.h"
#include "tape/stepper.h"

namespace gramme::native {

class Parts {
 public:
  /// Makes an executor of a run of steps.
  using Make = std::function<Owned<>(Program)>;
  /// Runs the program step by step, stores its output in `output`, and divides it by what the steps took and gave; null
  /// if no run of steps is worth a program. On an exception `*failed` is the step that raised. Throws PythonError.
  /// `trains`: backwards may be recorded.
  static std::shared_ptr<const Parts> find(const Program& program, PyObject* const* inputs, const Make& make,
                                           bool trains, Owned<>& output, size_t* failed);

  /// Runs the program. `failed`: see note_origin. Throws PythonError.
  Owned<> run(const Program& program, PyObject* const* inputs, size_t* failed) const;
  template <class Visit>
  void each_executor(Visit&& visit) const {
    for (const Part& part : parts_)
      if (part.executor) visit(part.executor.get());
  }
  template <class Visit>
  void each_local(Visit&& visit) const {
    for (const Part& part : parts_)
      if (part.local) visit(*part.local);
  }

 private:
  struct Part {
    size_t first, end;                // steps
    Owned<> executor;                 // of steps on plain tensors
    std::shared_ptr<LocalRun> local;  // of steps on distributed tensors
    std::vector<ValueId> inputs, outputs;
  };
  /// False, without effects, if the part's steps are to run one by one.
  bool run_whole(const Part& part, const Program& program, Stepper& stepper, size_t* failed) const;

  std::vector<Part> parts_;
  std::vector<std::optional<WaitOperator>> waits_;  // by step
  Owned<> waiting_;                                 // the class of wrappers that wait for a collective; may be null
};

}  // namespace gramme::native
