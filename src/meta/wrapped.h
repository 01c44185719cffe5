// Tensors of classes that wrap others and say of what they are made (`__tensor_flatten__`, `__tensor_unflatten__`).
//
// Their record has the records of the inner tensors, and a context: the names of these and what the class keeps beside
// them, one object for equal ones (gramme/_wrappers.py).
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

/// True if operators go to a __torch_dispatch__ of the class.
bool is_wrapper(PyTypeObject* type);
/// True if the class says of what its instances are made.
bool is_traceable(PyTypeObject* type);
/// The context of a record: throws PythonError if the class' own has no comparison.
Owned<> wrapper_context(const std::vector<PyObject*>& names, PyObject* context);
/// The names of the inner tensors of a wrapper's record; borrowed, a tuple.
PyObject* part_names(const Record& record);
/// The name of the inner tensor that the call reads off a wrapper; null if it is no such call.
bool reads_part(PyObject* target);

/// The record of a wrapper of fakes. Throws std::runtime_error if it wraps anything else.
const Record* record_of_wrapper(PyObject* wrapper, Environment* environment);
/// A wrapper as the record says, of inner tensors that are given.
Owned<> make_wrapper(const Record& record, const std::function<Owned<>(const Record&)>& make,
                     const std::function<Owned<>(shape::SymInt)>& number);

/// What a tensor is made of: the inner tensors in order, and all memory, its own too.
struct Parts {
  std::vector<const c10::TensorImpl*> tensors;
  std::vector<const c10::StorageImpl*> storages;
};
Parts parts_of(PyObject* wrapper);
/// True for an instance of a traceable class, no fake itself.
bool wraps_fakes(PyObject* tensor);

}  // namespace gramme::meta
