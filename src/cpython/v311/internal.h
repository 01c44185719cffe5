// CPython's own headers, for files of this folder only. They need their C atomics replaced in C++.
#pragma once
#include <Python.h>

#undef HAVE_STD_ATOMIC          // <stdatomic.h> of C; the builtin atomics have the same layout
#undef _PyObject_LookupSpecial  // Python.h renames it outside the core
#define Py_BUILD_CORE 1
#include <internal/pycore_ceval.h>
#include <internal/pycore_code.h>
#include <internal/pycore_context.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_function.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_object.h>
#include <internal/pycore_pyerrors.h>
#include <internal/pycore_pystate.h>
#undef Py_BUILD_CORE
