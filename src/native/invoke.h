// Calling an operator of an instruction: by its C++ signature if that is in the table, else boxed.
//
// The build has tools/make_native_signatures.py read the operators' C++ signatures from the installed torch's headers:
// torch_signatures.def, SIGNATURE(number, type) and OPERATOR(number, "aten::add.Tensor").
#pragma once
#include "native/tape.h"

namespace gramme::native {

/// Sets `invoke`, `bound` and `typed` of an Operator instruction from its call and keys.
void bind_operator(Instruction& instruction);

/// The same, boxed whatever the table says.
void bind_boxed(Instruction& instruction);

/// True if nobody watches operators (a profiler). Those called at their kernels would not be seen.
bool unwatched();

/// For statistics.
size_t typed_signatures();

}  // namespace gramme::native
