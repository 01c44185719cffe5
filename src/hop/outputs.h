// What bodies of control flow return: trees of tensors of their own, and of what is the same whatever runs.
#pragma once
#include <array>
#include <optional>

#include "hop/body.h"
#include "hop/tree.h"

namespace gramme::hop {

/// The operator's arguments by their names; the segment ends if they are not just these.
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

/// One function's results. Its tensors are nodes of the body, which must still be open.
struct Outputs {
  /// `numbers`: those that it computed are nodes, too.
  Outputs(Trace& trace, const Body& body, Value* result, bool numbers = false);

  Tree tree;
  /// By leaf: the node of a tensor that the body made, or of a number; else no node.
  std::vector<meta::Argument> arguments;
  bool numbers;
};

/// An int, no bool.
bool is_whole(Value* seen);

/// What an operator's call gives at one place: a tensor, a whole number in the range, or what nobody asks it for.
struct Item {
  value::Tensor* tensor = nullptr;
  std::optional<shape::Range> range;
  Value* number = nullptr;  // once it is taken
};
/// The items are what the call gives from now on.
void take_items(Trace& trace, graph::Node* call, std::vector<Item>& items);

/// The results of two functions of which one runs.
struct Merged {
  std::vector<meta::Argument> left, right;  // what the bodies return
  std::vector<Value*> leaves;               // what comes of it
  std::vector<value::Tensor*> tensors;      // the new ones among them
  std::vector<Item> items;                  // of what the bodies return
  struct Whole {
    size_t leaf, item;
  };
  std::vector<Whole> numbers;  // leaves to be made: ints that one function returns and not the other
};
/// Ends the segment if what they return is not of one form, or cannot be told apart from what it shares memory with.
Merged merge(Trace& trace, const Outputs& left, const Outputs& right);

/// What only tensors come of: those of one function, null for its whole numbers if those are taken (`numbers`). Ends
/// the segment at anything else, and at shared memory.
std::vector<value::Tensor*> own_tensors(Trace& trace, const Outputs& outputs);
/// What a method would give for a tensor as the record says; the segment ends if that is no tensor.
const meta::Record* would_give(Trace& trace, const Row& row, const meta::Record* self, const char* method,
                               const std::vector<meta::Argument>& arguments);
/// The tensor is the result of a call that is about to be made.
value::Tensor* new_result(Trace& trace, const meta::Record* record);
/// A tensor that the operator itself takes, and perhaps keeps for backward.
meta::Argument operand(Trace& trace, value::Tensor* tensor);
/// Where backends run PyTorch's operator, all it gives needs a gradient as soon as one input does, and its functions
/// run again for gradients.
void refuse_other_gradients(Trace& trace, const std::vector<meta::Argument>& inputs,
                            const std::vector<value::Tensor*>& tensors);

}  // namespace gramme::hop
