// Reads marks from the tensor's instance dict by C API, without running Python.
#include "guards/marks.h"

#include <array>

#include "base/error.h"
#include "base/once.h"
#include "cpython/entries.h"
#include "torch/names.h"

namespace gramme::guards {
namespace {

using Names = std::array<PyObject*, 5>;

const Names& names() {
  const Names* const all = once([] {
    return new Names{
        of_torch::attribute(of_torch::MarkedDynamicIndices), of_torch::attribute(of_torch::MarkedWeakDynamicIndices),
        of_torch::attribute(of_torch::MarkedUnbackedIndices),
        of_torch::attribute(of_torch::MarkedStrictUnbackedIndices), of_torch::attribute(of_torch::MarkedStaticIndices)};
  });
  return *all;
}

/// The set of one kind of mark on the tensor; null if it has none.
PyObject* mark(PyObject* tensor, PyObject* name) {
  PyObject* found;
  cpython::instance_attribute(tensor, name, &found);
  return found && PyAnySet_Check(found) ? found : nullptr;
}

/// True if `set` is a subset of `of`. Both hold ints, whose hashes and comparisons are CPython's.
bool is_subset(PyObject* set, PyObject* of) {
  PyObject* item;
  Py_hash_t hash;
  for (Py_ssize_t at = 0; cpython::next_member(set, &at, &item, &hash);)
    if (!PyLong_CheckExact(item) || PySet_Contains(of, item) != 1) return false;
  return true;
}

}  // namespace

Owned<> marks_of(PyObject* tensor) {
  Owned<> result = take(PyTuple_New(static_cast<Py_ssize_t>(names().size())));
  bool any = false;
  for (size_t i = 0; i < names().size(); ++i) {
    PyObject* found = mark(tensor, names()[i]);
    any |= found != nullptr;
    PyTuple_SET_ITEM(result.get(), i, found ? take(PyFrozenSet_New(found)).release() : Py_NewRef(Py_None));
  }
  return any ? std::move(result) : share(Py_None);
}

bool has_guarded_address(PyObject* tensor) {
  static PyObject* const name = of_torch::attribute(of_torch::StaticInputType);
  PyObject* found = nullptr;
  cpython::instance_attribute(tensor, name, &found);
  return found && PyUnicode_CheckExact(found) && PyUnicode_CompareWithASCIIString(found, "guarded") == 0;
}

bool are_marks_within(PyObject* tensor, PyObject* marks) {
  for (size_t i = 0; i < names().size(); ++i) {
    PyObject* found = mark(tensor, names()[i]);
    if (!found) continue;
    PyObject* known = marks == Py_None ? Py_None : PyTuple_GET_ITEM(marks, i);
    if (known == Py_None || !is_subset(found, known)) return false;
  }
  return true;
}

namespace {
bool is_hidden_by(PyTypeObject* type, PyObject* name) {
  if (!PyUnicode_CheckExact(name)) return PyUnicode_Check(name);  // non-strings equal no name
  PyObject* found = cpython::type_lookup(type, name);
  return found && !Py_TYPE(found)->tp_descr_set;
}
}  // namespace

bool hides_nothing(PyObject* tensor) {
  PyTypeObject* type = Py_TYPE(tensor);
  if (cpython::has_inline_values(tensor)) {
    for (Py_ssize_t i = 0, count = cpython::inline_count(tensor); i < count; ++i)
      if (is_hidden_by(type, cpython::shared_key_at(type, cpython::inline_insertion_order(tensor, i)))) return false;
    return true;
  }
  PyObject *dict = cpython::instance_dict_if_any(tensor), *name, *value;
  for (Py_ssize_t at = 0; dict && PyDict_Next(dict, &at, &name, &value);)
    if (is_hidden_by(type, name)) return false;
  return true;
}

}  // namespace gramme::guards
