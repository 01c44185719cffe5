// What is known about a step's target: whether its operators are all it does.
#pragma once
#include <string>
#include <unordered_map>

#include "tape/program.h"

namespace gramme::native {

/// Traits needed for every step, cached by target.
class Targets {
 public:
  struct Traits {
    /// A call does everything by dispatcher operators, apart from reading sizes, types and settings.
    bool transparent;
    /// It deliberately leaves its result's data uninitialised.
    bool leaves_uninitialized;
    /// The name "namespace::name" if the target is a custom operator. Its call may bypass the dispatcher and run a
    /// Python kernel, whose own operators are then observed.
    std::string of_program;
  };
  const Traits& of(const Step& step);

 private:
  std::unordered_map<PyObject*, Traits> known_;  // method names and functions cannot collide
};

/// The name "namespace::name" of an operator that is called by its packet or an overload; else empty.
std::string operator_of(const Step& step);
/// True if the step may return a tensor without calling an operator, because there is nothing to do.
bool may_do_nothing(const Step& step);
/// True if the step only reports API usage to PyTorch's statistics.
bool only_counts(const Step& step);
/// x.contiguous()
bool is_contiguous_call(const Step& step);
/// True if the step only reads metadata that guards fix.
bool tells_metadata(const Step& step);
/// True if the step itself, beside its operators, may act differently for other sizes.
bool looks_at_sizes(const Step& step);
/// True if the step only computes with Python numbers.
bool is_arithmetic(const Step& step);
/// True if all arguments are numbers, strings and the like.
bool is_fixed(const Step& step);
/// True if the step makes tensors of Python numbers without an operator.
bool reads_numbers(const Step& step);
/// x.size(1)
bool is_size_call(const Step& step);
/// torch.tensor
bool makes_literal(const Step& step);
/// operator.getitem
bool is_getitem(const Step& step);

}  // namespace gramme::native
