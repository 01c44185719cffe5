// Decides whether the nodes of a recorded backward deliver gradients in autograd's order, as a reducer must hear of
// them (leaves.h).
#include "training/leaves.h"

namespace gramme::native {

/// The engine calls leaves that become ready together in the order of delivery if they are two.
constexpr int kTogether = 2;

/// True if the reducer, if there is one, will hear of gradients in autograd's order. Casts are older than autograd's.
bool Training::may_be_heard(const Way& way) const {
  if (!way.heard) return true;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!flat_->casts.empty()) return false;
  if (!layout_) return true;
  for (size_t p = 0; p < layout_->pieces.size(); ++p) {
    const std::vector<Use>& uses = layout_->pieces[p].uses;
    for (size_t first = 0, end; first < uses.size(); first = end) {
      int leaves = 0;
      bool heard = false;
      for (end = first; end < uses.size() && uses[end].node == uses[first].node; ++end) {
        const int32_t input = uses[end].input;
        if (input < 0 || !way.edges[static_cast<size_t>(input)].is_valid()) continue;
        const torch::autograd::Edge& edge = way.edges[static_cast<size_t>(input)];
        leaves += is_leaf(edge);
        if (listener_at(edge) != Listener::Reducer) continue;
        if (!is_used_once(input) || !is_once(p, end)) return false;
        heard = true;
      }
      if (heard && leaves > kTogether) return false;
    }
  }
  return true;
}

}  // namespace gramme::native
