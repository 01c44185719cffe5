// The exception of a call that fails whatever its tensors hold.
#pragma once
#include "meta/infer.h"

namespace gramme::meta {

/// What the call does on zeros with the arguments' metadata.
enum class Tried : uint8_t {
  Passes,
  Raises,   // one of Python's own exceptions, which is set, before it wrote to any of them
  Unknown,  // also where tensors are too large to try
};
Tried try_on_zeros(const Call& call);
/// The same of a call whose sizes vary, as it is now.
Tried try_on_zeros(const Call& call, shape::Assumptions& now);
inline bool raises_on_zeros(const Call& call) { return try_on_zeros(call) == Tried::Raises; }
inline bool raises_on_zeros(const Call& call, shape::Assumptions& now) {
  return try_on_zeros(call, now) == Tried::Raises;
}

/// Fakes do not ask which types kernels are written for, and whether there are elements. Certain: views, and plain
/// floats of one type.
bool may_refuse_types(const Call& call, const Outcome& outcome);

/// True if the call may write what the written tensor's type cannot hold. Operators raise then, fakes mostly do not,
/// and a graph whose writes are made functional computes and converts. Certain: no argument is of a higher category
/// (bool, integers, floats, complex) than what is written, nor is that the only one and cannot hold a fraction.
bool may_not_fit(const Call& call, const Outcome& outcome);

}  // namespace gramme::meta
