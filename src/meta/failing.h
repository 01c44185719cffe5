// Finds the exception of a call that fails for any data, by running it on zeros.
#pragma once
#include "meta/infer.h"

namespace gramme::meta {

/// The result of running a call on zeros.
enum class Tried : uint8_t {
  Passes,
  Raises,   // raised a builtin exception, which is set, before writing
  Unknown,  // not tried, for example because tensors are too large
};
Tried try_on_zeros(const Call& call);
/// The same for a call with varying sizes, at their present values.
Tried try_on_zeros(const Call& call, shape::Assumptions& now);
inline bool raises_on_zeros(const Call& call) { return try_on_zeros(call) == Tried::Raises; }
inline bool raises_on_zeros(const Call& call, shape::Assumptions& now) {
  return try_on_zeros(call, now) == Tried::Raises;
}

/// True if kernels may refuse the dtypes, or empty tensors, which fakes do not check. Surely not for views, and for
/// plain floats of one type.
bool may_refuse_types(const Call& call, const Outcome& outcome);

/// True if the call may write values that the written tensor's dtype cannot hold. Operators then raise, fakes mostly do
/// not, and a functionalised graph converts. Surely not if no argument is of a higher category (bool, integer, float,
/// complex) than the written tensor, unless that is the only one and holds no fractions.
bool may_not_fit(const Call& call, const Outcome& outcome);

}  // namespace gramme::meta
