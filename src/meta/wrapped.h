// Traceable wrapper subclasses: tensors that wrap others and define `__tensor_flatten__` and `__tensor_unflatten__`.
//
// Their record has the inner tensors' records, and a context: the inner names and the class's metadata, one object for
// equal ones (gramme/_wrappers.py).
#pragma once
#include <Python.h>

#include <functional>
#include <vector>

#include "meta/record.h"

namespace c10 {
struct TensorImpl;
struct StorageImpl;
}  // namespace c10

namespace gramme::meta {

class Environment;

/// True if the class has a __torch_dispatch__ that handles operators.
bool is_wrapper(PyTypeObject* type);
/// True if the class defines both methods.
bool is_traceable(PyTypeObject* type);
/// The context of a record. Throws PythonError if the class's metadata cannot be compared.
Owned<> wrapper_context(const std::vector<PyObject*>& names, PyObject* context);
/// The names of the inner tensors of a wrapper's record; borrowed, a tuple.
PyObject* part_names(const Record& record);
/// True for getattr, by which graphs read inner tensors of wrappers.
bool reads_part(PyObject* target);

/// The record of a wrapper of fakes; throws std::runtime_error if it wraps something else.
const Record* record_of_wrapper(PyObject* wrapper, Environment* environment);
/// Makes a wrapper as described by the record, from a list of its inner tensors.
Owned<> make_wrapper(const Record& record, PyObject* inner, const std::function<Owned<>(shape::SymInt)>& number);

/// The inner tensors of a tensor, in order, and all memory, including its own.
struct Parts {
  std::vector<const c10::TensorImpl*> tensors;
  std::vector<const c10::StorageImpl*> storages;
};
Parts parts_of(PyObject* wrapper);
/// True for an instance of a traceable wrapper class that is no fake itself.
bool wraps_fakes(PyObject* tensor);

}  // namespace gramme::meta
