// CPython's internal headers, for files of this room only. In C++ their C atomics must be replaced.
#pragma once
#include "cpython/image.h"

#undef HAVE_STD_ATOMIC
#undef _PyObject_LookupSpecial
#define Py_BUILD_CORE 1
#include <internal/pycore_call.h>
#include <internal/pycore_ceval.h>
#include <internal/pycore_code.h>
#include <internal/pycore_context.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_function.h>
#include <internal/pycore_interp.h>
#if GRAMME_PYTHON_EXPORTED_HELPERS
#include <internal/pycore_intrinsics.h>
#endif
#include <internal/pycore_list.h>
#include <internal/pycore_object.h>
#include <internal/pycore_pyerrors.h>
#include <internal/pycore_pystate.h>
#include <internal/pycore_runtime.h>
#if __has_include(<internal/pycore_setobject.h>)
#include <internal/pycore_setobject.h>
#endif
#include <internal/pycore_unicodeobject.h>
#undef Py_BUILD_CORE
