// The exception of a call that fails whatever its tensors hold.
#pragma once
#include "meta/infer.h"

namespace gramme::meta {

/// Makes the call on zeros with the arguments' metadata. True if it raises one of Python's own exceptions before it
/// wrote to any of them; the exception is set then. False, with none set, otherwise, and where tensors are too large to
/// try.
bool raises_on_zeros(const Call& call);
/// The same of a call whose sizes vary, as it is now.
bool raises_on_zeros(const Call& call, shape::Assumptions& now);

/// May the call write what the written tensor's type cannot hold? Operators raise then, fakes mostly do not, and a
/// graph whose writes are made functional computes and converts. Certain: no argument is of a higher category (bool,
/// integers, floats, complex) than what is written, nor is that the only one and cannot hold a fraction.
bool may_not_fit(const Call& call, const Outcome& outcome);

}  // namespace gramme::meta
