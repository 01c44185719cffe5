// Functions of gramme's own that replays call, under names: gramme._C.replayed.
#pragma once
#include <nanobind/nanobind.h>

namespace gramme::api {

void bind_replayed(nanobind::module_& m);

}  // namespace gramme::api
