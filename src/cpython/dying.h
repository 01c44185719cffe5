// What the death of an object may run: finalizers and callbacks of weak references, its own and those of what dies with
// it.
#pragma once
#include <Python.h>

#include <functional>

#include "cpython/generators.h"

namespace gramme::cpython {

inline bool has_finalizer(PyObject* object) {
  return (Py_TYPE(object)->tp_finalize || Py_TYPE(object)->tp_del) && !closes_quietly(object);
}
/// True if somebody waits for the object's death.
bool has_callback(PyObject* object);

/// True if `is` holds of the object or, if it is a container, of what it holds.
template <class Is>
bool any_held(PyObject* object, const Is& is) {
  if (is(object)) return true;
  const bool container = PyList_CheckExact(object) || PyTuple_CheckExact(object) || PyDict_CheckExact(object);
  auto visit = [](PyObject* held, void* is) { return static_cast<int>((*static_cast<const Is*>(is))(held)); };
  return container && Py_TYPE(object)->tp_traverse(object, visit, const_cast<Is*>(&is)) != 0;
}

/// How many references to an object are of whoever looks; empty: none.
using Looking = std::function<Py_ssize_t(PyObject*)>;

/// The object's own finalizer, or one of what a container holds or of what dies with the object. A callback of a weak
/// reference counts where nothing holds the object but the program in one place and whoever looks.
bool runs_code(PyObject* object, const Looking& looking);

/// The object goes with what lets go of it, and so may others.
bool all_of_it_dies_quietly(PyObject* object);

/// The program lets go of the object in one place, or of nothing (null). What has no finalizer of its own and is held
/// elsewhere lives on.
inline bool dies_quietly(PyObject* object) {
  if (!object) return true;
  if (has_finalizer(object)) return false;
  return Py_REFCNT(object) > 1 || all_of_it_dies_quietly(object);
}

}  // namespace gramme::cpython
