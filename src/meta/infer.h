// Infers what a call would return, without data: a memo in front of FakeTensorMode.
//
//   const Outcome& outcome = infer(call);
//   if (outcome.error) …   // the call raises, or its result depends on data
//
// The memo's key is (target, argument tree with record ids, scalars, aliasing among the tensors, grad and inference
// mode, autocast, default dtype and device, deterministic flags). For some arguments (operands of add, mul, sub, div …)
// only the type of a Python scalar is in the key, because its value does not matter. Outcomes live as long as the
// process. Only PyTorch's own functions and operators are kept: the program's Python is asked each time.
//
// An Outcome was inferred with one value for each Number of the call; numbers.h tells which values it depends on.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/ref.h"
#include "meta/argument.h"
#include "meta/ragged.h"
#include "shape/assumptions.h"

namespace gramme::meta {

/// A call's result: a tree like the Python value.
struct Result {
  enum Kind : uint8_t {
    Tensor,    // record
    Constant,  // object: None, bool, int, str, torch.Size, dtype … fully known without data
    Number,    // a Python number of type `object` that depends on data
    Sequence,  // items; object is its type (tuple, list, torch.return_types.*, namedtuple)
  };
  Kind kind = Constant;
  const Record* record = nullptr;
  Owned<> object;
  shape::Expr expr = nullptr;        // Number: its expression over the call's symbols
  int same_as = -1;                  // Tensor: the n-th tensor leaf itself (x.add_(1), x.contiguous())
  int unwrapped = 0;                 // … or what that leaf wraps this many levels down
  int view_of = -1;                  // Tensor: shares storage with the n-th tensor leaf
  bool differentiable_view = false;  // also a view to autograd, unlike the result of detach()
  int twin = -1;                     // an item: the same tensor as the n-th item
  int memory_of = -1;                // shares storage with a tensor of the history
  bool shared = false;               // shares storage with more than `view_of`
  // Tensor inside transforms: `wraps_at` levels down it wraps the n-th leaf, or what that leaf wraps `wraps_unwrapped`
  // levels down.
  int wraps_leaf = -1, wraps_at = 0, wraps_unwrapped = 0;
  // Tensor: the inner tensor `place` of the wrapper that is the n-th leaf; -1 is the leaf itself.
  struct Part {
    int leaf = -1, place = -1;
  };
  Part part;
  std::vector<Part> parts;  // a wrapper: its inner tensors; `object` is the wrapper of fakes
  std::vector<Result> items;
};

/// A transform of torch.func around a call.
struct Level {
  enum Kind : uint8_t { Vmap, Grad, Jvp } kind;
  int64_t size;     // Vmap
  char randomness;  // Vmap: first letter of error, same, different
  bool enabled;     // Grad, Jvp: gradients (tangents) were recorded when it was entered
};

struct Mutation {
  int leaf;              // the n-th tensor leaf, which was written
  const Record* record;  // its metadata afterwards
};

struct Outcome {
  Result result;
  std::vector<Mutation> mutations;
  std::vector<Mutation> ragged;  // leaves that were not written, but jagged tensors came to refer to them
  bool random = false;           // draws from a generator (dropout, rand, …)
  bool data_dependent = false;   // error because the result depends on data
  bool may_raise = false;        // may raise for some data (torch_targets.def lists those that cannot)
  bool opaque = false;           // no schema: perhaps writes all its tensors
  bool runs_python = false;      // reaches a Python kernel, which may look at the program's objects
  bool warns = false;            // warns at each run, naming the program's line
  bool error = false;
  bool inexpressible = false;       // error: its sizes have no form as expressions, so they must be numbers
  bool raised = false;              // error that the real call raises too (wrong shapes, wrong arguments)
  mutable bool tried = false;       // passed try_on_zeros()
  uint16_t operators = 0;           // operators dispatched directly by the call
  std::string message;              // type and text of the error
  std::vector<shape::Expr> guards;  // for varying sizes: the outcome holds if these are true
};

/// Runs no user code except the torch function itself, on fakes, and restores the thread's modes and state. Levels of
/// torch.func's transforms, outermost first, are entered for the call only.
///
/// If sizes or numbers of the call are expressions, `assumptions` has their present values, by which the outcome is
/// chosen. The caller must learn the outcome's guards.
const Outcome& infer(const Call& call, const std::vector<Level>& levels = {},
                     shape::Assumptions* assumptions = nullptr);

/// Scope of one capture. Calls on wrappers are inferred by their class's own code, which may read the program's state.
/// That state does not change during a capture, so equal calls share an outcome; later captures infer it again.
class OutcomesOfCapture {
 public:
  OutcomesOfCapture();
  ~OutcomesOfCapture();
  OutcomesOfCapture(const OutcomesOfCapture&) = delete;

 private:
  const RaggedNumbers numbers_;
  const std::unique_ptr<class Outcomes> own_;
  class Outcomes* const outer_;
};

struct InferStatistics {
  uint64_t hits, misses;
  double miss_seconds;
};
InferStatistics infer_statistics();

}  // namespace gramme::meta
