// Which Python numbers of a call its Outcome depends on: the closed list TAKES_NUMBER of targets.def.
//
// An Outcome is inferred with one value for each number. It holds for every value that the number may have where the
// list says so, and nowhere else: whoever captures has such a number in the graph only there, and knows it elsewhere.
#pragma once
#include <functional>

#include "meta/argument.h"

namespace gramme::meta {

/// How a target takes the numbers in one of its places.
enum class Takes : uint8_t { Not, Mixes, Divides, Scales, Raises, Fills, Makes, AsNumpy };

/// The places of one call.
class NumberPlaces {
 public:
  explicit NumberPlaces(const Call& call);
  Takes at(uint32_t position) const;
  Takes under(PyObject* keyword) const;

 private:
  const struct NumberTaker* taker_;  // null: none takes a number
};

/// What a float that a tensor holds may be.
Interval floats_of(const Record& record);

/// Calls `visit` with each Number of the call, in order, and whether the Outcome depends on its value.
void each_number(const Call& call, const std::function<void(const Argument&, bool)>& visit);

}  // namespace gramme::meta
