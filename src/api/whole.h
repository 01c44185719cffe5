// Captures a call as one graph without running it, for gramme.export.
#pragma once
#include <nanobind/nanobind.h>

namespace gramme::api {

void bind_whole(nanobind::module_& m);

}  // namespace gramme::api
