// Comparing, hashing and printing constants with C-level access only: guards call this, so no user code may run.
#include "source/constant.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/integer.h"
#include "base/ref.h"
#include "cpython/entries.h"
#include "cpython/integers.h"
#include "source/leaf_types.h"

namespace gramme::source {
namespace {

bool is_singleton(PyObject* object) {
  return object == Py_None || object == Py_Ellipsis || object == Py_NotImplemented || PyBool_Check(object);
}

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

size_t hash_bits(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return std::hash<uint64_t>()(bits);
}

size_t mix(size_t seed, size_t value) { return seed ^ (value + 0x9e3779b97f4a7c15 + (seed << 6) + (seed >> 2)); }

/// The three fields of a range, which its type reads without running Python: the items of a range are exact ints.
Owned<> range_fields(PyObject* range) {
  WithoutCollection no_finalizers;  // guards compare ranges
  Owned<> fields = take(PyTuple_New(3));
  const char* names[] = {"start", "stop", "step"};
  for (int i = 0; i < 3; ++i)
    PyTuple_SET_ITEM(fields.get(), i, take(PyObject_GetAttrString(range, names[i])).release());
  return fields;
}

bool same_text(PyObject* a, PyObject* b) {
  if (PyUnicode_READY(a) < 0 || PyUnicode_READY(b) < 0) throw PythonError();
  return PyUnicode_GET_LENGTH(a) == PyUnicode_GET_LENGTH(b) && PyUnicode_KIND(a) == PyUnicode_KIND(b) &&
         std::memcmp(PyUnicode_DATA(a), PyUnicode_DATA(b), PyUnicode_GET_LENGTH(a) * PyUnicode_KIND(a)) == 0;
}

bool same_tuple(PyObject* a, PyObject* b) {
  if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i)
    if (!same_constant(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
  return true;
}

/// Nested tuples deeper than this are no constants: code that handles constants recurses to the leaves.
constexpr int kDeepest = 100;

bool is_constant_above(PyObject* object, int depth);

bool are_constants(PyObject* const* objects, Py_ssize_t count, int depth) {
  return depth > 0 &&
         std::all_of(objects, objects + count, [=](PyObject* object) { return is_constant_above(object, depth - 1); });
}

bool is_constant_above(PyObject* object, int depth) {
  if (is_singleton(object) || PyLong_CheckExact(object) || PyUnicode_CheckExact(object) || PyFloat_CheckExact(object) ||
      PyBytes_CheckExact(object) || PyComplex_CheckExact(object) || Py_TYPE(object) == &PyRange_Type)
    return true;
  if (PyTuple_CheckExact(object))
    return are_constants(reinterpret_cast<PyTupleObject*>(object)->ob_item, PyTuple_GET_SIZE(object), depth);
  if (PyFrozenSet_CheckExact(object)) {
    Py_ssize_t at = 0;
    PyObject* item;
    Py_hash_t hash;
    while (cpython::next_member(object, &at, &item, &hash))
      if (!are_constants(&item, 1, depth)) return false;
    return true;
  }
  if (!PySlice_Check(object)) return false;
  auto* slice = reinterpret_cast<PySliceObject*>(object);
  PyObject* const parts[] = {slice->start, slice->stop, slice->step};
  return are_constants(parts, std::size(parts), depth);
}

}  // namespace

bool is_constant(PyObject* object) { return is_constant_above(object, kDeepest); }

bool same_constant(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyLong_CheckExact(a)) return same_int(a, b);
  if (PyUnicode_CheckExact(a)) return same_text(a, b);
  if (PyFloat_CheckExact(a)) return same_bits(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
  if (PyTuple_CheckExact(a)) return same_tuple(a, b);
  if (PyBytes_CheckExact(a))
    return PyBytes_GET_SIZE(a) == PyBytes_GET_SIZE(b) &&
           std::memcmp(PyBytes_AS_STRING(a), PyBytes_AS_STRING(b), PyBytes_GET_SIZE(a)) == 0;
  if (PyComplex_CheckExact(a)) {
    Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
    return same_bits(x.real, y.real) && same_bits(x.imag, y.imag);
  }
  if (PyFrozenSet_CheckExact(a)) return same_elements(a, b);
  if (PySlice_Check(a)) {
    auto *x = reinterpret_cast<PySliceObject*>(a), *y = reinterpret_cast<PySliceObject*>(b);
    return same_constant(x->start, y->start) && same_constant(x->stop, y->stop) && same_constant(x->step, y->step);
  }
  if (Py_TYPE(a) == &PyRange_Type) return same_tuple(range_fields(a).get(), range_fields(b).get());
  return is_leaf(a) && same_leaf(a, b);
}

/// Equal sets that were built alike keep their items in the same slots, so the search in `b` continues from the last
/// match.
bool same_elements(PyObject* a, PyObject* b) {
  if (PySet_GET_SIZE(a) != PySet_GET_SIZE(b)) return false;
  Py_ssize_t at = 0, from = 0;
  PyObject *item, *other;
  Py_hash_t hash, other_hash;
  while (cpython::next_member(a, &at, &item, &hash)) {
    bool found = false;
    for (int round = 0; round < 2 && !found; ++round) {
      if (round) from = 0;
      while (!found && cpython::next_member(b, &from, &other, &other_hash))
        found = hash == other_hash && same_constant(item, other);
    }
    if (!found) return false;
  }
  return true;
}

size_t constant_hash(PyObject* object) {
  size_t seed = std::hash<void*>()(Py_TYPE(object));
  if (PyFloat_CheckExact(object)) return mix(seed, hash_bits(PyFloat_AS_DOUBLE(object)));
  if (PyComplex_CheckExact(object)) {
    Py_complex value = PyComplex_AsCComplex(object);
    return mix(mix(seed, hash_bits(value.real)), hash_bits(value.imag));
  }
  if (PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      seed = mix(seed, constant_hash(PyTuple_GET_ITEM(object, i)));
    return seed;
  }
  if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return mix(mix(mix(seed, constant_hash(slice->start)), constant_hash(slice->stop)), constant_hash(slice->step));
  }
  bool own_hash = PyLong_CheckExact(object) || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object) ||
                  Py_TYPE(object) == &PyRange_Type || (PyFrozenSet_CheckExact(object) && is_constant(object));
  if (own_hash) return mix(seed, static_cast<size_t>(PyObject_Hash(object)));
  if (is_leaf(object)) return mix(seed, leaf_hash(object));
  return mix(seed, std::hash<void*>()(object));
}

bool is_narrow(PyObject* object) {
  if (PyLong_CheckExact(object)) return cpython::has_one_digit(object);
  return PyFloat_CheckExact(object) && std::fabs(PyFloat_AS_DOUBLE(object)) <= kNarrow;
}

std::string describe(PyObject* object) {
  if (!object) return "nothing";
  Owned<> text;
  if (is_constant(object) || is_leaf(object)) {
    text = take(PyObject_Repr(object));
  } else if (PyType_Check(object)) {
    return reinterpret_cast<PyTypeObject*>(object)->tp_name;
  } else if (PyFunction_Check(object)) {
    text = share(reinterpret_cast<PyFunctionObject*>(object)->func_qualname);
  } else if (PyCode_Check(object)) {
    text = share(reinterpret_cast<PyCodeObject*>(object)->co_qualname);
  } else {
    return std::string("a ") + Py_TYPE(object)->tp_name;
  }
  Py_ssize_t size;
  const char* bytes = PyUnicode_AsUTF8AndSize(text.get(), &size);
  if (!bytes) {  // lone surrogates
    PyErr_Clear();
    text = take(PyObject_ASCII(text.get()));
    bytes = PyUnicode_AsUTF8AndSize(text.get(), &size);
  }
  return std::string(bytes, static_cast<size_t>(size));
}

}  // namespace gramme::source
