// gramme._C.Meter: what gramme.meter reads.
#pragma once
#include <nanobind/nanobind.h>

namespace gramme::api {

void bind_meter(nanobind::module_& m);

}  // namespace gramme::api
