// Programs on wrappers of tensors (DTensor) run step by step in Python, since wrappers decide what an operator does.
// The runs of steps on plain tensors between those are programs of their own, with tapes and recorded backwards. Where
// a capture has added a step that waits for a local tensor, the graph of autograd has no node for it, as in eager.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tape/program.h"

namespace gramme::native {

class Parts {
 public:
  using WaitOperator = c10::TypedOperatorHandle<at::Tensor(const at::Tensor&)>;
  /// Makes an executor of a run of steps.
  using Make = std::function<Owned<>(Program)>;
  /// Runs the program step by step, stores its output in `output`, and divides it by what the steps took and gave; null
  /// if no run of steps is worth a program. On an exception `*failed` is the step that raised. Throws PythonError.
  static std::shared_ptr<const Parts> find(const Program& program, PyObject* const* inputs, const Make& make,
                                           Owned<>& output, size_t* failed);

  /// Runs the program. `failed`: see note_origin. Throws PythonError.
  Owned<> run(const Program& program, PyObject* const* inputs, size_t* failed) const;
  template <class Visit>
  void each_executor(Visit&& visit) const {
    for (const Part& part : parts_)
      if (part.executor) visit(part.executor.get());
  }

 private:
  struct Part {
    size_t first, end;                 // steps
    Owned<> executor;                  // of steps on plain tensors
    std::optional<WaitOperator> wait;  // of a single step that waits for a local tensor
    std::vector<ValueId> inputs, outputs;
  };
  std::vector<Part> parts_;
  Owned<> waiting_;  // the class of wrappers that wait for a collective; may be null
};

}  // namespace gramme::native
