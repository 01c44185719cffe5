// Existing tensors that PyTorch's front end looks at earlier than a capture does. Graph inputs come in the order of its
// first looks. Such a look only records the position; it adds no guard and no input.
#pragma once
#include <tuple>
#include <unordered_map>

#include "trace/scope.h"

namespace gramme::trace {

/// Call where PyTorch looks: at the content of a loaded cell, at parameters and buffers found by a module, and at what
/// becomes an attribute.
void show(Scope& scope, const value::Value* value);
/// PyTorch asks whether a function made in the program, or an argument of a class, is a constant. That looks at
/// everything on the way to the answer, which is returned.
bool show_as_constant(Scope& scope, value::Value* value);

/// State of the scope.
class Shown {
 public:
  void add(const PyObject* tensor, const graph::Graph& root) {
    places_.try_emplace(tensor, root.placeholders().size(), false, places_.size());
  }
  bool empty() const { return places_.empty(); }
  /// Sorts in the order of looks. An input that is not looked at earlier has (inputs made before it, true, 0).
  using Place = std::tuple<size_t, bool, size_t>;
  Place place(const PyObject* tensor, size_t made_before) const;

 private:
  std::unordered_map<const PyObject*, Place> places_;
};

}  // namespace gramme::trace
