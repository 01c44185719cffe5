// The exception of a call that fails whatever its tensors hold.
#pragma once
#include "meta/argument.h"

namespace gramme::meta {

/// Makes the call on zeros with the arguments' metadata. True if it raises one of Python's own exceptions before it
/// wrote to any of them; the exception is set then. False, with none set, otherwise, and where tensors are too large to
/// try.
bool raises_on_zeros(const Call& call);
/// The same of a call whose sizes vary, as it is now.
bool raises_on_zeros(const Call& call, shape::Assumptions& now);

}  // namespace gramme::meta
