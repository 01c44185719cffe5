// Tensors and symbolic numbers as Python objects, and PyTorch's errors and warnings as Python's.
//
// PyTorch's own headers for this include pybind11, which costs each file that sees them ten seconds of compilation.
// python.cpp includes them, other files only if they must.
#pragma once
#include <Python.h>
//
#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>
#include <torch/csrc/Export.h>

#include <exception>

#include "aten/classes.h"
#include "base/ref.h"

/// As PyTorch declares them; python.cpp sees both.
TORCH_PYTHON_API extern PyObject* THPVariableClass;
TORCH_PYTHON_API extern PyObject* ParameterClass;

namespace gramme::aten {

/// How an instance of torch.Tensor begins; python.cpp compares it with PyTorch's.
struct TensorObject {
  PyObject_HEAD at::Tensor tensor;
};

inline PyTypeObject* tensor_type() { return reinterpret_cast<PyTypeObject*>(THPVariableClass); }
inline PyTypeObject* parameter_type() { return reinterpret_cast<PyTypeObject*>(ParameterClass); }

/// True for an instance of torch.Tensor or torch.nn.Parameter itself, not of a subclass.
inline bool is_exact_tensor(PyObject* object) {
  return Py_IS_TYPE(object, tensor_type()) || Py_IS_TYPE(object, parameter_type());
}
/// The tensor of an object that is one.
inline const at::Tensor& tensor_of(PyObject* object) { return reinterpret_cast<TensorObject*>(object)->tensor; }
/// The tensor's Python object, made if there is none yet; None for an undefined tensor. Throws PythonError.
Owned<> object_of(const at::TensorBase& tensor);
Owned<> object_of(at::TensorBase&& tensor);

/// True for a torch.SymInt, a torch.SymFloat, a torch.SymBool.
bool is_symint(PyObject* object);
bool is_symfloat(PyObject* object);
bool is_symbool(PyObject* object);
/// The value of an int or torch.SymInt. Throws PythonError.
c10::SymInt symint_of(PyObject* object);
/// An int, or a torch.SymInt. Throws PythonError.
Owned<> object_of(const c10::SymInt& number);

/// Sets the Python exception that PyTorch sets for a C++ one; needs the GIL.
void set_python_error(const std::exception_ptr& error);
/// Calls `run`, then issues PyTorch's warnings from it in Python. `run` may release the GIL; the caller holds it.
void with_warnings(c10::function_ref<void()> run);

}  // namespace gramme::aten
