// What a call would return, without its data: a memo in front of FakeTensorMode.
//
//   const Outcome& outcome = infer(call);
//   if (outcome.error) …   // the call raises, or its result depends on data
//
// The memo's key is (target, argument tree with record ids, scalars, aliasing among the tensors, grad and inference
// mode, autocast, default dtype and device, deterministic flags). Values of Python scalars leave the key in places of a
// table where they cannot matter to it (add, mul, sub, div, … : their type always stays). Outcomes live as long as the
// process. Only PyTorch's own functions and operators have any: the program's Python is asked anew each time.
//
// An Outcome was inferred with one value for each Number of the call; on which of them it depends, numbers.h says.
#pragma once
#include <string>
#include <vector>

#include "base/ref.h"
#include "meta/argument.h"
#include "shape/assumptions.h"

namespace gramme::meta {

/// One result, a tree like the Python value the call returns.
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
  shape::Expr expr = nullptr;  // of a Number that is one over the symbols of the call
  int same_as = -1;            // Tensor: it is the n-th tensor leaf of the call itself (x.add_(1), x.contiguous())
  int unwrapped = 0;           // … or the tensor that the leaf wraps so many levels down
  int view_of = -1;            // Tensor: it shares storage with the n-th tensor leaf
  bool differentiable_view = false;  // to autograd too, unlike what detach() gives
  int twin = -1;                     // an item: it is the very tensor that the n-th item is
  int memory_of = -1;                // it shares storage with another tensor that the history knows
  bool shared = false;               // it shares storage with more than `view_of` says
  // Tensor that wraps others: so many levels down it wraps what the n-th leaf is, or wraps so many levels down itself.
  int wraps_leaf = -1, wraps_at = 0, wraps_unwrapped = 0;
  // Tensor: it is the inner tensor of that place, of the wrapper that the n-th leaf is; place -1 is the leaf itself.
  struct Part {
    int leaf = -1, place = -1;
  };
  Part part;
  std::vector<Part> parts;  // a wrapper: what its inner tensors are, and `object` is it, of fakes
  std::vector<Result> items;
};

/// One transform of torch.func around a call.
struct Level {
  enum Kind : uint8_t { Vmap, Grad, Jvp } kind;
  int64_t size;     // Vmap
  char randomness;  // Vmap: first letter of error, same, different
  bool enabled;     // Grad, Jvp: the mode that records gradients, or tangents, was on where it was entered
};

struct Mutation {
  int leaf;              // n-th tensor leaf of the call that was written
  const Record* record;  // its metadata afterwards
};

struct Outcome {
  Result result;
  std::vector<Mutation> mutations;
  bool random = false;          // draws from a generator (dropout, rand, …)
  bool data_dependent = false;  // error because the result depends on data
  bool may_raise = false;       // is not known not to raise, whatever the data (targets.def)
  bool opaque = false;          // no schema says what it writes: all its tensors, perhaps
  bool runs_python = false;     // reaches an operator with a kernel in Python, which may look at what a program holds
  bool warns = false;           // a warning names the line that runs, and comes as often as it runs
  bool error = false;
  bool inexpressible = false;  // error because what it does with sizes that vary has no form: they must be numbers
  bool raised = false;         // error that the call itself raises, with data too (wrong shapes, wrong arguments)
  mutable bool tried = false;  // on zeros, and it passes: see try_on_zeros
  uint16_t operators = 0;      // that the call asks the dispatcher for; what those call in their turn is not counted
  std::string message;         // type and text of the error
  std::vector<shape::Expr> guards;  // where sizes vary: it holds if all of these are true
};

/// Runs no user code but the torch function itself, on fakes; the thread's own modes and state are as before
/// afterwards. The levels of torch.func's transforms, outermost first, are entered for the call only.
///
/// If some sizes or numbers of the call are expressions, `assumptions` gives their present values, by which the outcome
/// is chosen; its guards are for the caller to learn.
const Outcome& infer(const Call& call, const std::vector<Level>& levels = {},
                     shape::Assumptions* assumptions = nullptr);

struct InferStatistics {
  uint64_t hits, misses;
  double miss_seconds;
};
InferStatistics infer_statistics();

}  // namespace gramme::meta
