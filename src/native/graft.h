// Autograd's own graph in the place of a call's nodes, for gradients of gradients.
//
// A graph of the gradients leads back to the nodes of the forward, and a later pass goes through these once, with all
// that comes to them. So the forward is run again under autograd, and its nodes hang behind those of the call, which
// hand on what comes. They get the numbers by which the engine would have ordered them, and the pass that is under way
// learns of them: from there on all is the engine's.
#pragma once
#include "native/forward_call.h"

namespace gramme::native {

/// For the pass under way, which comes to `node` first of all nodes of the call, and from now on.
void graft(NodeOfForward& node);

}  // namespace gramme::native
