// gramme._C.pipeline: the autograd nodes and the planner of pipelines for Python.
#pragma once
#include <nanobind/nanobind.h>

namespace gramme::api {

void bind_pipeline(nanobind::module_& m);

}  // namespace gramme::api
