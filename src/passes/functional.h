// Replaces in-place operators by functional ones where that is not observable.
#pragma once
#include "passes/assemble.h"

namespace gramme::native {

/// An operator that writes to an unshared contiguous temporary makes a new tensor with the same bits instead. The
/// overwritten tensor may be saved by an autograd formula, which would otherwise need a copy that no operator made.
/// Running the tape under autograd still counts a version of the overwritten tensor, for formulas that saved it before.
void make_functional(Assembly& assembly, Recorder& recorder);
/// True if the formula of the replacing operator may save its result.
bool formula_saves_result(const c10::OperatorHandle& op);

}  // namespace gramme::native
