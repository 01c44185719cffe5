// References to Python objects with their ownership in the type.
//
//   Owned<> list = take(PyList_New(0));      // a new reference; throws PythonError if the call failed
//   Owned<> again = share(list.get());       // one more reference to a borrowed object
//   Borrowed<> item = PyList_GET_ITEM(...);  // somebody else owns it
//
// No other file of gramme counts references by hand, except src/cpython and places that say why.
#pragma once
#include <Python.h>

#include <exception>
#include <utility>

namespace gramme {

/// A CPython error is set on this thread; it travels as a C++ exception to the nearest boundary.
struct PythonError : std::exception {
  const char* what() const noexcept override { return "a Python exception is set"; }
};

/// Somebody else keeps the object alive.
template <class T = PyObject>
using Borrowed = T*;

/// One strong reference.
template <class T = PyObject>
class Owned {
 public:
  Owned() = default;
  Owned(const Owned& other) : object_(other.object_) { Py_XINCREF(object_); }
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() { Py_XDECREF(object_); }

  /// Takes over a reference that the caller owns; null stays null.
  static Owned steal(T* object) {
    Owned result;
    result.object_ = object;
    return result;
  }
  /// Adds a reference; null stays null.
  static Owned share(T* object) {
    Py_XINCREF(object);
    return steal(object);
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  /// Hands the reference to the caller.
  T* release() { return std::exchange(object_, nullptr); }
  bool operator==(const Owned& other) const { return object_ == other.object_; }

 private:
  T* object_ = nullptr;
};

/// A new reference from a C-API call; throws PythonError if the call failed.
inline Owned<> take(PyObject* object) {
  if (!object) throw PythonError();
  return Owned<>::steal(object);
}
inline Owned<> share(PyObject* object) { return Owned<>::share(object); }
/// Throws PythonError for the -1 of a C-API call.
inline int check(int status) {
  if (status < 0) throw PythonError();
  return status;
}
/// An interned string that lives as long as the process. For names known at compile time.
inline PyObject* intern(const char* text) {
  PyObject* name = PyUnicode_InternFromString(text);
  if (!name) throw PythonError();
  return name;
}

/// Saves the set Python error and puts it back at the end of the scope.
class ErrorState {
 public:
  ErrorState() { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~ErrorState() { PyErr_Restore(type_, value_, traceback_); }
  ErrorState(const ErrorState&) = delete;
  ErrorState& operator=(const ErrorState&) = delete;

 private:
  PyObject *type_, *value_, *traceback_;
};

/// Switches cyclic garbage collection off in the scope: for work that makes very many objects, none of them garbage.
class WithoutCollection {
 public:
  WithoutCollection() : was_enabled_(PyGC_Disable()) {}
  ~WithoutCollection() {
    if (was_enabled_) PyGC_Enable();
  }
  WithoutCollection(const WithoutCollection&) = delete;
  WithoutCollection& operator=(const WithoutCollection&) = delete;

 private:
  int was_enabled_;
};

}  // namespace gramme
