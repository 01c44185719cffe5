// The tensors from before that PyTorch's front end looks at earlier than a capture does: graph inputs are in the order
// of its first looks. Here such a look leaves nothing but its place: no guard, no input.
#pragma once
#include <tuple>
#include <unordered_map>

#include "trace/scope.h"

namespace gramme::trace {

/// PyTorch looks at what a cell holds when it is loaded, at what a module finds among its parameters and buffers, and
/// at what becomes an attribute.
void show(Scope& scope, const value::Value* value);
/// It asks of a function made in the program before it is inlined, and of what a class is called with, whether it is a
/// constant: that looks at all on the way to the answer.
bool show_as_constant(Scope& scope, value::Value* value);

/// Kept with the scope.
class Shown {
 public:
  void add(const PyObject* tensor, const graph::Graph& root) {
    places_.try_emplace(tensor, root.placeholders().size(), false, places_.size());
  }
  bool empty() const { return places_.empty(); }
  /// In the order of looks. That of an input which is not looked at earlier: (inputs made before it, true, 0).
  using Place = std::tuple<size_t, bool, size_t>;
  Place place(const PyObject* tensor, size_t made_before) const;

 private:
  std::unordered_map<const PyObject*, Place> places_;
};

}  // namespace gramme::trace
