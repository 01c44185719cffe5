// Finds out whether an object's death runs code: finalizers and callbacks of weak references, its own or of objects
// that die with it.
#pragma once
#include <Python.h>

#include <functional>

#include "cpython/generators.h"

namespace gramme::cpython {

inline bool has_finalizer(PyObject* object) {
  return (Py_TYPE(object)->tp_finalize || Py_TYPE(object)->tp_del) && !closes_quietly(object);
}
/// True if a weak reference to the object has a callback.
bool has_callback(PyObject* object);

/// True if `is` holds for the object or, if it is a container, for an item.
template <class Is>
bool any_held(PyObject* object, const Is& is) {
  if (is(object)) return true;
  const bool container = PyList_CheckExact(object) || PyTuple_CheckExact(object) || PyDict_CheckExact(object);
  auto visit = [](PyObject* held, void* is) { return static_cast<int>((*static_cast<const Is*>(is))(held)); };
  return container && Py_TYPE(object)->tp_traverse(object, visit, const_cast<Is*>(&is)) != 0;
}

/// Returns how many of an object's references belong to the asking code; an empty function means none.
using Looking = std::function<Py_ssize_t(PyObject*)>;

/// True if the object, an item of a container, or an object that dies with it has a finalizer. A callback of a weak
/// reference counts only if one reference of the program and those of the asking code are the only ones.
bool runs_code(PyObject* object, const Looking& looking);

/// dies_quietly() for an object whose last reference is released: others may die with it.
bool all_of_it_dies_quietly(PyObject* object);

/// True if releasing one of the program's references to the object (null: none) runs no code. An object without a
/// finalizer that has other references survives.
inline bool dies_quietly(PyObject* object) {
  if (!object) return true;
  if (has_finalizer(object)) return false;
  return Py_REFCNT(object) > 1 || all_of_it_dies_quietly(object);
}

}  // namespace gramme::cpython
