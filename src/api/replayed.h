// gramme._C.replayed: gramme's own functions that replay calls, by name.
#pragma once
#include <nanobind/nanobind.h>

namespace gramme::api {

void bind_replayed(nanobind::module_& m);

}  // namespace gramme::api
