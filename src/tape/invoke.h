// Calls an instruction's operator: by its C++ signature if that is in the table, else boxed.
//
// The table is torch_signatures.def, with SIGNATURE(number, type) and OPERATOR(number, "aten::add.Tensor"). The build
// generates it from the installed torch's headers (tools/make_native_signatures.py).
#pragma once
#include "tape/tape.h"

namespace gramme::native {

/// Sets `invoke`, `bound` and `typed` of an Operator instruction from its call and keys.
void bind_operator(Instruction& instruction);

/// The same, always boxed.
void bind_boxed(Instruction& instruction);

/// True if nothing observes operators (a profiler); operators called at their kernels would be missed.
bool unwatched();

/// The number of signatures in the table, for statistics.
size_t typed_signatures();

}  // namespace gramme::native
