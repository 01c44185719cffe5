// torch.ops.higher_order: operators that take functions. Their calls stand in the graph, with what the functions do as
// graphs of their own (bodies).
#pragma once

namespace gramme::hop {

/// What a call of such an operator becomes: called once in a process.
void register_operators();
void register_leaf_functions();
/// Hooks on tensors of the graph: after the models of the room builtins.
void register_hooks();

}  // namespace gramme::hop
