// What may be expected of a step's target.
#pragma once
#include <string>
#include <unordered_map>

#include "native/program.h"

namespace gramme::native {

/// What is asked of every step: found once for each target.
class Targets {
 public:
  struct Traits {
    /// All that a call does is done by operators of the dispatcher, apart from looking at sizes, types and settings.
    bool transparent;
    /// It leaves data of its result uninitialised on purpose.
    bool leaves_uninitialized;
    /// The operator that it is, if that is not PyTorch's: "namespace::name". A call may pass the dispatcher by and run
    /// its kernel in Python, whose own operators are seen then.
    std::string of_program;
  };
  const Traits& of(const Step& step);

 private:
  std::unordered_map<PyObject*, Traits> known_;  // a method's name is no function's target
};

/// True if it may give back a tensor without calling an operator, because there was nothing to do.
bool may_do_nothing(const Step& step);
/// True if it only tells PyTorch that a function is in use, for its statistics.
bool only_counts(const Step& step);
/// x.contiguous()
bool is_contiguous_call(const Step& step);
/// True if it tells of its tensors what their guards fix.
bool tells_metadata(const Step& step);
/// True if it may do something else for other sizes of its tensors, besides what its operators do.
bool looks_at_sizes(const Step& step);
/// True if it computes with Python numbers, and nothing else.
bool is_arithmetic(const Step& step);
/// True if its arguments are numbers, strings and the like only.
bool is_fixed(const Step& step);
/// True if it makes tensors of Python numbers without an operator.
bool reads_numbers(const Step& step);
/// x.size(1)
bool is_size_call(const Step& step);
/// torch.tensor
bool makes_literal(const Step& step);
/// operator.getitem
bool is_getitem(const Step& step);

}  // namespace gramme::native
