// Reports which objects of segments exist only in this process.
#pragma once
#include <nanobind/nanobind.h>

namespace gramme::api {

/// For each segment's number: the objects that could not be found again from its description, and why.
nanobind::dict unportable(nanobind::object entry);

}  // namespace gramme::api
