// What kernels refuse and fakes do not ask: numbers that do not fit a dtype, sizes that do not fit memory. Only meta's
// own sources include this.
#pragma once
#include "meta/infer.h"

namespace gramme::meta {

/// True if a number of the call does not fit the dtype of the result or of what is written.
bool overflows(const Call& call, const Outcome& outcome);

/// True if the result takes memory that may well not be there. Of any other call nobody expects to run out of it.
bool is_huge(const Result& result, shape::Assumptions* assumptions);

}  // namespace gramme::meta
