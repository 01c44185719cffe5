// A call captured as a whole and not run, for Python: gramme.export.
#pragma once
#include <nanobind/nanobind.h>

namespace gramme::api {

void bind_whole(nanobind::module_& m);

}  // namespace gramme::api
