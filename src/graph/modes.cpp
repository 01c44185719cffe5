// Removes nodes that set the grad mode without changing it.
#include <algorithm>

#include "base/once.h"
#include "base/ref.h"
#include "graph/graph.h"
#include "torch/names.h"

namespace gramme::graph {

namespace {

/// torch._C._set_grad_enabled, or null while torch is not imported.
PyObject* grad_mode_setter() { return of_torch::if_loaded(of_torch::SetGradEnabled); }

/// 1 or 0 if the node sets the grad mode, else -1.
int sets_grad(const Node* node) { return sets_grad_mode(node) ? node->call.args[0].object == Py_True : -1; }

}  // namespace

bool sets_grad_mode(const Node* node) {
  return node->kind == Node::CallFunction && node->call.target && node->call.target == grad_mode_setter() &&
         node->call.arg_count == 1;
}

/// A graph of only such nodes becomes empty: replay sets the grad mode with which the segment ends.
void Graph::remove_redundant_grad_modes(bool grad_at_start) {
  std::erase_if(nodes_, [](const Node* node) { return sets_grad_mode(node) && !node->effect; });
  bool grad = grad_at_start;
  std::vector<Node*> kept;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    int first = sets_grad(nodes_[i]), second = i + 1 < nodes_.size() ? sets_grad(nodes_[i + 1]) : -1;
    if (first == !grad && second == grad) {
      ++i;  // drops both
      continue;
    }
    if (first >= 0) grad = first;
    kept.push_back(nodes_[i]);
  }
  if (std::ranges::all_of(kept, [](const Node* node) { return sets_grad_mode(node); })) kept.clear();
  nodes_ = std::move(kept);
}

}  // namespace gramme::graph
