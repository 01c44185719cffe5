// Kernels in Python: what somebody registered with torch.library.
#pragma once
#include <string>

#include "meta/argument.h"

namespace gramme::meta {

/// Which kernels there are in Python: another number when one came or went before the last note_python_kernels().
uint64_t python_kernels();
/// Before a capture.
void note_python_kernels();

/// `full` is "aten::add.Tensor". Kernels for fakes, and PyTorch's own, do not count.
bool has_python_kernel(const std::string& full);
/// True if they look at nothing but their arguments (gramme._operators). By the name without an overload.
bool is_self_contained(const std::string& name);

/// True if it is PyTorch's, with nobody else's kernels. Only what such operators return is kept.
bool is_own_operator(const std::string& full);

/// True if FakeTensorMode knows what the operator returns without its other kernels.
bool has_fake_kernel(const std::string& full);

/// True if FakeTensorMode, or a torch.vmap around it, would run other Python of the program's than kernels for fakes.
/// Only an operator that is called by its name is looked at, and whether PyTorch's own are overridden.
bool infers_by_program(const Call& call, bool mapped);

}  // namespace gramme::meta
