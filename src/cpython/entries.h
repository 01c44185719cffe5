// Iterates over sets and dicts with the hashes that they store, without running Python.
//
//   PyObject* key;
//   Py_hash_t hash;
//   for (Py_ssize_t at = 0; next_member(set, &at, &key, &hash);) ...
//
// Results are borrowed. The container must not change meanwhile.
#pragma once
#include <Python.h>

extern "C" {  // exported by every version, but later ones declare them for the core only
PyAPI_FUNC(int) _PySet_NextEntry(PyObject* set, Py_ssize_t* at, PyObject** key, Py_hash_t* hash);
PyAPI_FUNC(PyObject*) _PyObject_MakeTpCall(PyThreadState* thread, PyObject* callable, PyObject* const* args,
                                           Py_ssize_t count, PyObject* names);
}

namespace gramme::cpython {

/// The next member of a set or frozenset in its own order, and its hash; false at the end.
inline bool next_member(PyObject* set, Py_ssize_t* at, PyObject** key, Py_hash_t* hash) {
  return _PySet_NextEntry(set, at, key, hash) != 0;
}

/// The next entry of a dict in the order of insertion, and the hash under which it is stored; false at the end.
bool next_entry(PyObject* dict, Py_ssize_t* at, PyObject** key, PyObject** value, Py_hash_t* hash);

/// Calls through the type's tp_call, like an object without vectorcall.
inline PyObject* call_by_type(PyObject* callable, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return _PyObject_MakeTpCall(PyThreadState_Get(), callable, args, count, names);
}

}  // namespace gramme::cpython
