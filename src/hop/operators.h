// torch.ops.higher_order: operators that take functions. A graph contains their calls, with each function as a graph of
// its own (a body).
#pragma once

namespace gramme::hop {

/// Registers the models of such operators; called once in a process.
void register_operators();
void register_leaf_functions();
/// Registers the models of hooks on tensors of the graph, after the models of `builtins`.
void register_hooks();

}  // namespace gramme::hop
