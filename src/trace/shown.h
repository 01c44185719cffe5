// Existing tensors that PyTorch's front end looks at earlier than a capture does. Graph inputs come in the order of its
// first looks. Such a look only records the position; it adds no guard and no input.
#pragma once
#include <tuple>
#include <unordered_map>

#include "graph/graph.h"
#include "value/value.h"

namespace gramme::trace {

class Shown {
 public:
  explicit Shown(const graph::Graph& root) : root_(root) {}
  Shown(const Shown&) = delete;

  /// Call where PyTorch looks: at the content of a loaded cell, at parameters and buffers found by a module, and at
  /// what becomes an attribute.
  void look_at(const value::Value* value);
  /// PyTorch asks whether a function made in the program, or an argument of a class, is a constant. That looks at
  /// everything on the way to the answer, which is returned.
  bool look_for_constant(value::Value* value);
  bool empty() const { return places_.empty(); }
  /// Sorts in the order of looks. An input that is not looked at earlier has (inputs made before it, true, 0).
  using Place = std::tuple<size_t, bool, size_t>;
  Place place(const PyObject* tensor, size_t made_before) const;

 private:
  class Question;
  void add(const PyObject* tensor) { places_.try_emplace(tensor, root_.placeholders().size(), false, places_.size()); }

  const graph::Graph& root_;
  std::unordered_map<const PyObject*, Place> places_;
};

}  // namespace gramme::trace
