// Which nodes of autograd may be written down by what they call.
#pragma once
#include <torch/csrc/autograd/node.h>

namespace gramme::native {

/// True if it is in the closed list (torch_nodes.def, and those of libraries). Others may run the program's code, keep
/// an edge elsewhere, or look at data past operators.
bool is_known_node(const torch::autograd::Node& node);
/// For the tool that makes the list: whatever PyTorch generates is known while it is on.
void trust_generated_nodes(bool on);

}  // namespace gramme::native
