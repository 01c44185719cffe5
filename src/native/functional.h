// Operators that write in place, where that can be left out.
#pragma once
#include "native/assemble.h"

namespace gramme::native {

/// An operator that writes to a contiguous temporary whose memory nothing else uses makes a new tensor instead, with
/// the same bits: what it overwrites may be saved by a formula of autograd, as a copy that no operator of the tape
/// made. Whoever runs the tape under autograd counts a version of what is overwritten, for formulas that saved it
/// before.
void make_functional(Assembly& assembly, Recorder& recorder);
/// True if the formula of an operator that replaces a writing one may save its result.
bool formula_saves_result(const c10::OperatorHandle& op);

}  // namespace gramme::native
