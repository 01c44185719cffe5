// The Python type of a compiled function: gramme._C.Entry.
//
// An entry is called like the function it wraps, binds as a method like one, carries its name, docstring and signature,
// and owns the segments captured for it. Garbage collected with all of them.
#pragma once
#include <Python.h>

#include <memory>

#include "runtime/table.h"

namespace gramme::runtime {

/// The type, ready to be put in the module; null with an error set if that failed.
PyTypeObject* entry_type();
/// A new reference, or null with an error set.
PyObject* make_entry(PyFunctionObject* function, std::shared_ptr<Capturer> capturer);

bool is_entry(PyObject* object);
/// The segments that the entry has captured.
const std::shared_ptr<Family>& family_of(PyObject* entry);
PyFunctionObject* function_of(PyObject* entry);

}  // namespace gramme::runtime
