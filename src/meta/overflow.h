// Python numbers that do not fit a dtype. Only meta's own sources include this.
#pragma once
#include "meta/infer.h"

namespace gramme::meta {

/// Does a number of the call not fit the dtype of the result or of what is written? Kernels refuse to convert it; fakes
/// do not ask.
bool overflows(const Call& call, const Outcome& outcome);

}  // namespace gramme::meta
