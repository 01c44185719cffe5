// gramme._C.Meter: the counters behind gramme.meter.
#pragma once
#include <nanobind/nanobind.h>

namespace gramme::api {

void bind_meter(nanobind::module_& m);

}  // namespace gramme::api
