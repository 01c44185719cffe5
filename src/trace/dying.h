// What the death of a real object may run: a segment ends before an instruction that lets go of such an object, since
// its effects come at the end.
#pragma once
#include <Python.h>

namespace gramme::trace {

class Capture;

bool has_finalizer(PyObject* object);
/// Does somebody wait for the object's death?
bool has_callback(PyObject* object);

/// Is something so of the object, or if it is a container of what it holds?
template <class Is>
bool any_held(PyObject* object, const Is& is) {
  if (is(object)) return true;
  const bool container = PyList_CheckExact(object) || PyTuple_CheckExact(object) || PyDict_CheckExact(object);
  auto visit = [](PyObject* held, void* is) { return static_cast<int>((*static_cast<const Is*>(is))(held)); };
  return container && Py_TYPE(object)->tp_traverse(object, visit, const_cast<Is*>(&is)) != 0;
}

/// The object's own finalizer, or one of what a container holds or of what dies with the object. A callback of a weak
/// reference counts where nothing holds the object but the program in one place and the capture.
bool runs_code(const Capture& capture, PyObject* object);
/// The program stores something else where the object is, or nothing; null is none.
void refuse_death(const Capture& capture, PyObject* object);

}  // namespace gramme::trace
