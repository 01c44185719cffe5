// Inserts autograd's own graph behind a call's nodes: for gradients of gradients, and where the program sees which of
// autograd's nodes have run, since one of them raises or calls a hook.
//
// The graph of the gradients leads back to the nodes of the forward, and a later pass visits these once, with the sum
// of what reaches them. So the forward runs again under autograd, and its nodes are attached behind the call's nodes,
// which pass gradients on. They get the sequence numbers they would have had, and the running pass is told of them;
// from there on the engine does everything.
#pragma once
#include <functional>

#include "training/forward_call.h"

namespace gramme::native {

/// True if one of autograd's nodes would raise in the running pass, in which no node of the call was visited yet.
bool will_raise(const ForwardCall& call);
/// Grafts in the running pass, in which `node` is the first node of the call to be visited, and for later passes.
void graft(NodeOfForward& node);

/// Lets `change` change the edges of these nodes in the running pass, and tells the pass.
void change_edges(const std::vector<c10::intrusive_ptr<torch::autograd::Node>>& nodes,
                  const std::function<void(torch::autograd::GraphTask& pass)>& change);

}  // namespace gramme::native
