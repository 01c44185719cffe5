// The autograd nodes of pipelines for Python: gramme._C.pipeline.
#pragma once
#include <nanobind/nanobind.h>

namespace gramme::api {

void bind_pipeline(nanobind::module_& m);

}  // namespace gramme::api
