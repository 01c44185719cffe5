// A function's result as torch.utils._pytree flattens it: tuples, lists and dicts around leaves.
#pragma once
#include <vector>

#include "graph/graph.h"
#include "protocol/protocol.h"

namespace gramme::hop {

class Tree {
 public:
  /// Ends the segment at any other container.
  Tree(trace::Trace& trace, value::Value* root);

  std::vector<value::Value*> leaves;  // in order
  /// True if it has the same containers, with the same keys.
  bool has_form_of(const Tree& other) const { return same(root_, other.root_); }
  /// New containers of this form around other leaves.
  value::Value* around(trace::Trace& trace, const std::vector<value::Value*>& leaves) const;
  /// Gives nodes that are leaves of containers the name that PyTorch's flattening gives them.
  void name_leaves(graph::Graph& graph) const;

 private:
  struct Part {
    value::Kind kind;              // Tuple, List, Dict; Constant: a leaf
    PyTypeObject* type = nullptr;  // the class of a tuple
    std::vector<value::Value*> keys;
    std::vector<Part> items;
  };
  Part part(trace::Trace& trace, value::Value* value);
  static bool same(const Part& a, const Part& b);
  static value::Value* build(trace::Trace& trace, const Part& part, value::Value* const*& leaf);

  Part root_;
};

/// True if the values are known to be one object, or equal constants.
bool is_same(trace::Trace& trace, value::Value* a, value::Value* b);

}  // namespace gramme::hop
