// gramme._C.instructions: code as Python looks through it, the same for every version of CPython.
#pragma once
#include <nanobind/nanobind.h>

namespace gramme::api {

void bind_instructions(nanobind::module_& m);

}  // namespace gramme::api
