// For people: what segments hold that only this process has.
#pragma once
#include <nanobind/nanobind.h>

namespace gramme::api {

/// By the number of each segment: what of it could not be found again from its description, and why.
nanobind::dict unportable(nanobind::object entry);

}  // namespace gramme::api
