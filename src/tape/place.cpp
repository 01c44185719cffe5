// Builds Python objects from registers and objects of a run, and takes results apart again.
#include "tape/place.h"

#include "aten/python.h"
#include "base/tuple_types.h"

namespace gramme::native {
namespace {

Owned<> sequence_at(const Place& place, Run& run) {
  auto* type = reinterpret_cast<PyTypeObject*>(place.object.get());
  const auto count = static_cast<Py_ssize_t>(place.items.size());
  if (type == &PyList_Type) {
    Owned<> list = take(PyList_New(count));
    for (Py_ssize_t i = 0; i < count; ++i)
      PyList_SET_ITEM(list.get(), i, object_at(place.items[static_cast<size_t>(i)], run).release());
    return list;
  }
  Owned<> tuple = take(PyTuple_New(count));
  for (Py_ssize_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(tuple.get(), i, object_at(place.items[static_cast<size_t>(i)], run).release());
  if (type == &PyTuple_Type) return tuple;
  return tuple_of_type(place.object.get(), tuple.get());
}

Owned<> mapping_at(const Place& place, Run& run) {
  Owned<> dict = take(PyDict_New());
  for (size_t i = 0; i + 1 < place.items.size(); i += 2) {
    Owned<> key = object_at(place.items[i], run), value = object_at(place.items[i + 1], run);
    check(PyDict_SetItem(dict.get(), key.get(), value.get()));
  }
  return dict;
}

[[noreturn]] void fail(const char* wanted, PyObject* object) {
  PyErr_Format(PyExc_RuntimeError, "gramme: a call that gave %s gives a %s now", wanted, Py_TYPE(object)->tp_name);
  throw PythonError();
}

}  // namespace

[[gnu::hot]] Owned<> object_at(const Place& place, Run& run) {
  switch (place.kind) {
    case Place::Constant:
      return place.object;
    case Place::Tensor:
      if (place.last) {
        at::Tensor taken = std::move(run.own[place.index]);  // moved here, since wrapping may not take the reference
        return aten::object_of(std::move(taken));
      }
      return aten::object_of(*run.tensors[place.index]);
    case Place::Object:
      return run.objects[place.index];
    case Place::Number:
      return take(PyLong_FromLongLong(run.numbers[place.index]));
    case Place::Float:
      return take(PyFloat_FromDouble(shape::as_float(run.numbers[place.index])));
    case Place::Sequence:
      return sequence_at(place, run);
    case Place::Mapping:
      return mapping_at(place, run);
    case Place::Range: {
      Owned<> start = object_at(place.items[0], run), stop = object_at(place.items[1], run),
              step = object_at(place.items[2], run);
      return take(PySlice_New(start.get(), stop.get(), step.get()));
    }
  }
  return {};
}

void put_object(PyObject* object, const Place& place, Run& run) {
  switch (place.kind) {
    case Place::Constant:
    case Place::Number:
    case Place::Float:
    case Place::Mapping:
    case Place::Range:
      return;  // results of Python calls never have such places
    case Place::Tensor:
      if (!aten::is_tensor(object)) fail("a tensor", object);
      run.own[place.index] = aten::tensor_of(object);
      return;
    case Place::Object:
      run.objects[place.index] = share(object);
      return;
    case Place::Sequence: {
      const auto count = static_cast<Py_ssize_t>(place.items.size());
      const bool same_type = reinterpret_cast<PyObject*>(Py_TYPE(object)) == place.object.get();
      if (!same_type || PySequence_Fast_GET_SIZE(object) != count) fail("another sequence", object);
      for (Py_ssize_t i = 0; i < count; ++i)
        put_object(PySequence_Fast_GET_ITEM(object, i), place.items[static_cast<size_t>(i)], run);
      return;
    }
  }
}

}  // namespace gramme::native
