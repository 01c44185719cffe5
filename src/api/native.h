// gramme._C.native: the native executor for Python, and the options of its backend.
#pragma once
#include <nanobind/nanobind.h>

#include "native/executor.h"

namespace gramme::api {

void bind_native(nanobind::module_& m);

/// True if the backend is gramme's own executor, which takes the captured graph without torch.fx.
bool is_native(PyObject* backend);
/// The backend's option caching_allocator.
native::Cached cached_of_backend(PyObject* backend);
/// The backend's option recorded_backward.
native::Backward backward_of(PyObject* backend);

}  // namespace gramme::api
