// Checks that kernels make and fakes do not: numbers that do not fit a dtype, sizes that do not fit memory. Only meta's
// own sources include this.
#pragma once
#include "meta/infer.h"

namespace gramme::meta {

/// True if a number of the call does not fit the dtype of the result or of a written tensor.
bool overflows(const Call& call, const Outcome& outcome);

/// True if the result is so large that memory may run out; other calls are assumed not to.
bool is_huge(const Result& result, shape::Assumptions* assumptions);

}  // namespace gramme::meta
