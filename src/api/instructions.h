// gramme._C.instructions: lists the instructions of a code object for Python code, the same for every CPython.
#pragma once
#include <nanobind/nanobind.h>

namespace gramme::api {

void bind_instructions(nanobind::module_& m);

}  // namespace gramme::api
