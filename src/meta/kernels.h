// Python kernels registered with torch.library: which operators have them, and whether they may see the program.
#pragma once
#include <string>

#include "meta/argument.h"

namespace gramme::meta {

/// A number for the set of Python kernels; changes if the set had changed at the last note_python_kernels().
uint64_t python_kernels();
/// Call before a capture.
void note_python_kernels();

/// True if the operator (`full`: "aten::add.Tensor") has Python kernels other than PyTorch's own and those for fakes.
bool has_python_kernel(const std::string& full);
/// True if its kernels are declared to read only their arguments (gramme._operators); by name without overload.
bool is_self_contained(const std::string& name);

/// True for PyTorch's operators without kernels of others. Only their outcomes are kept.
bool is_own_operator(const std::string& full);

/// True if FakeTensorMode can infer the operator without its device kernels.
bool has_fake_kernel(const std::string& full);

/// True if FakeTensorMode, or torch.vmap around it, would run Python of the program other than kernels for fakes.
/// Checks only the operator called by name, and whether PyTorch's own are overridden.
bool infers_by_program(const Call& call, bool mapped);

}  // namespace gramme::meta
