// A run of a program's steps on distributed tensors, below DTensor's dispatch.
//
// A distributed tensor (DTensor) is a wrapper of the process's local tensor with a specification: mesh, placements,
// sizes. Its dispatch, in Python, turns an operator into operators on local tensors and functional collectives. What it
// makes of a run of steps depends on specifications, on the local tensors' types and on the thread's state alone. So
// the first call with such a key is observed below the dispatch, and later ones run a tape on local tensors.
//
// Processes communicate as often and in the same order as by the dispatch, whatever the others do: each collective is
// called where it was, and none is called again (local_backward.h). A run takes plain and distributed tensors, and
// gives plain ones.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "native/local_plan.h"
#include "native/waits.h"
#include "tape/program.h"

namespace gramme::native {

class LocalRun : public std::enable_shared_from_this<LocalRun> {
 public:
  /// Null if some step is not known to do everything by operators. `program`: its output is a tuple of plain tensors.
  /// `trains`: backwards may be recorded.
  static std::shared_ptr<LocalRun> make(Program program, bool trains);

  /// Makes a call, and stores the outputs. False, without effects, if it is left to DTensor's dispatch. On an exception
  /// `*failed` is the step. Throws PythonError.
  bool run(std::span<PyObject* const> inputs, std::vector<Owned<>>& outputs, size_t* failed);

  // Used by the nodes:

  /// Runs the steps through the dispatch. `*odd`: some step does more than turn distributed tensors into others. Throws
  /// PythonError.
  std::vector<Owned<>> steps(PyObject* const* inputs, size_t* failed, bool* odd) const;
  void add(std::shared_ptr<LocalPlan> plan);  // made by with_gil
  /// From now on calls with such a key are left to the dispatch.
  void refuse(const LocalKey& key, std::string why);

  /// The number of calls by tapes with a backward.
  uint64_t trained() const;
  std::string print() const;

 private:
  LocalRun(Program program, bool trains) : program_(std::move(program)), trains_(trains) {}

  /// A call. `edges`: for the gradients of inputs.
  struct Call {
    std::span<PyObject* const> inputs;
    std::vector<at::Tensor> locals;
    torch::autograd::edge_list edges;
    std::vector<Owned<>>& outputs;
    size_t* failed;
  };
  void replay(const std::shared_ptr<LocalPlan>& plan, Call& call);
  void observe(LocalKey key, Call& call);
  static const char* find_ends(LocalCalls& calls, const std::vector<at::Tensor>& locals,
                               const std::vector<Owned<>>& outputs);

  const Program program_;
  const bool trains_;
  std::vector<std::optional<WaitOperator>> waits_;  // by step
  std::vector<std::shared_ptr<LocalPlan>> plans_;
  uint64_t starts_ = 0;  // calls whose backward may be recorded
};

}  // namespace gramme::native
