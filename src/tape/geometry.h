// Sizes and strides of views, computed as PyTorch's operators do.
#pragma once
#include "tape/remembered.h"
#include "tape/view.h"

namespace gramme::native {

/// Applies a step to a geometry; false if the operator would copy or raise.
bool apply(const ViewStep& step, const Run& run, Geometry& geometry);
/// Calls the operator itself.
at::Tensor call(const ViewStep& step, const Run& run, const at::Tensor& source);
/// The step for the `result`-th result of a view operator's call; nullopt for unknown calls.
std::optional<ViewStep> view_step(const OperatorCall& call, size_t result);
std::string print(const ViewStep& step, const Tape& tape);

}  // namespace gramme::native
