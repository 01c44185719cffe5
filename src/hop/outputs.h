// The results of control flow's functions: trees whose leaves are tensors made in the body, or values that are the same
// whichever function runs.
#pragma once
#include <array>
#include <optional>

#include "hop/body.h"
#include "hop/tree.h"

namespace gramme::hop {

/// The operator's arguments by name. Ends the segment if they are not exactly these.
template <size_t N>
std::array<Value*, N> bind(const Row& row, const Args& args, const char* const (&names)[N]) {
  std::array<Value*, N> found{};
  if (args.positional + args.keywords != N) cannot(Reason::ArgumentKind, row.name);
  for (size_t i = 0; i < N; ++i) {
    found[i] = i < args.positional ? args[i] : args.keyword(names[i]);
    if (!found[i]) cannot(Reason::ArgumentKind, row.name);
  }
  return found;
}
/// The items of a tuple or list.
std::vector<Value*> items_in(Trace& trace, const Row& row, Value* sequence);
std::vector<value::Tensor*> tensors_in(Trace& trace, const Row& row, Value* sequence);

/// The results of one function. Its tensors are nodes of the body, which must still be open.
struct Outputs {
  /// With `numbers`, numbers that the function computed are nodes too.
  Outputs(Trace& trace, const Body& body, Value* result, bool numbers = false);

  Tree tree;
  /// For each leaf: the node of a number or of a tensor that the body made; else no node.
  std::vector<meta::Argument> arguments;
  bool numbers;
};

/// True for an int that is no bool.
bool is_whole(Value* seen);

/// One result of an operator's call: a tensor, an int in the range, or unused.
struct Item {
  value::Tensor* tensor = nullptr;
  std::optional<shape::Range> range;
  Value* number = nullptr;  // set by take_items()
};
/// Makes the items the results of the call.
void take_items(Trace& trace, graph::Node* call, std::vector<Item>& items);

/// The joined results of two functions of which one runs.
struct Merged {
  std::vector<meta::Argument> left, right;  // what the bodies return
  std::vector<Value*> leaves;               // leaves of the joined result
  std::vector<value::Tensor*> tensors;      // the new ones among them
  std::vector<Item> items;                  // results of the operator
  struct Whole {
    size_t leaf, item;
  };
  std::vector<Whole> numbers;  // leaves to fill: ints that differ between the functions
};
/// Joins the results. Ends the segment if the two trees differ in form, or tensors share memory.
Merged merge(Trace& trace, const Outputs& left, const Outputs& right);

/// The tensors that one function returns; null for ints if `numbers`. Ends the segment at anything else and at shared
/// memory.
std::vector<value::Tensor*> own_tensors(Trace& trace, const Outputs& outputs);
/// The record that a method would return for a tensor with this record. Ends the segment if its result is no tensor.
const meta::Record* would_give(Trace& trace, const Row& row, const meta::Record* self, const char* method,
                               const std::vector<meta::Argument>& arguments);
/// A tensor for the result of a call that is not recorded yet.
value::Tensor* new_result(Trace& trace, const meta::Record* record);
/// The argument for a tensor that the operator takes, and may save for backward.
meta::Argument operand(Trace& trace, value::Tensor* tensor);
/// Ends the segment where gradients would differ from eager: in PyTorch's operator every result needs a gradient as
/// soon as one input does, and the functions run again in backward.
void refuse_other_gradients(Trace& trace, const std::vector<meta::Argument>& inputs,
                            const std::vector<value::Tensor*>& tensors);

}  // namespace gramme::hop
