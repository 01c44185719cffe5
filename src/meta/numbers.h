// Which Python numbers of a call its Outcome depends on: the closed list TAKES_NUMBER of torch_targets.def.
//
// An Outcome is inferred with one value for each number. It holds for all values of a number only in the places of the
// list. Captures pass varying numbers to graphs only there, and specialise them elsewhere.
#pragma once
#include <functional>

#include "meta/argument.h"

namespace gramme::meta {

/// How a target uses a number in one of its places.
enum class Takes : uint8_t { Not, Mixes, Divides, Scales, Raises, Fills, Makes, AsNumpy };

/// Looks up the places of one call.
class NumberPlaces {
 public:
  explicit NumberPlaces(const Call& call);
  Takes at(uint32_t position) const;
  Takes under(PyObject* keyword) const;

 private:
  const struct NumberTaker* taker_;  // null: no place takes a varying number
};

/// The interval of floats that a tensor of this dtype can hold.
Interval floats_of(const Record& record);

/// Calls `visit` with each Number of the call, in order, and whether the Outcome depends on its value.
void each_number(const Call& call, const std::function<void(const Argument&, bool)>& visit);

}  // namespace gramme::meta
