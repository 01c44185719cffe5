// What views do to sizes and strides, as PyTorch's operators compute it.
#pragma once
#include "native/remembered.h"
#include "native/views.h"

namespace gramme::native {

/// False if the operator would copy or raise.
bool apply(const ViewStep& step, const Run& run, Geometry& geometry);
/// The operator itself.
at::Tensor call(const ViewStep& step, const Run& run, const at::Tensor& source);
/// The step that stands for a call of a view operator, for the result of that number; none if it is not known.
std::optional<ViewStep> view_step(const OperatorCall& call, size_t result);
std::string print(const ViewStep& step, const Tape& tape);

}  // namespace gramme::native
