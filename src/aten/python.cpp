#include "aten/python.h"

#include <torch/csrc/Exceptions.h>                // sees pybind11: for all others
#include <torch/csrc/autograd/python_variable.h>  // sees pybind11: for all others
#include <torch/csrc/utils/python_symnode.h>      // sees pybind11: for all others

#include <cstddef>

namespace gramme::aten {

static_assert(offsetof(TensorObject, tensor) == offsetof(THPVariable, cdata));

bool is_tensor(PyObject* object) { return THPVariableClass && PyObject_TypeCheck(object, tensor_type()); }
bool is_exact_tensor_type(PyTypeObject* type) { return THPVariable_CheckTypeExact(type); }

Owned<> object_of(const at::TensorBase& tensor) { return take(THPVariable_Wrap(tensor)); }
Owned<> object_of(at::TensorBase&& tensor) { return take(THPVariable_Wrap(std::move(tensor))); }

bool is_symint(PyObject* object) { return torch::is_symint(object); }
bool is_symfloat(PyObject* object) { return torch::is_symfloat(object); }
bool is_symbool(PyObject* object) { return torch::is_symbool(object); }

c10::SymInt symint_of(PyObject* object) {
  try {
    return py::handle(object).cast<c10::SymInt>();
  } catch (py::error_already_set& error) {
    error.restore();
    throw PythonError();
  }
}

Owned<> object_of(const c10::SymInt& number) {
  try {
    return Owned<>::steal(py::cast(number).release().ptr());
  } catch (py::error_already_set& error) {
    error.restore();
    throw PythonError();
  }
}

void set_python_error(const std::exception_ptr& error) { torch::translate_exception_to_python(error); }

void with_warnings(c10::function_ref<void()> run) {
  torch::PyWarningHandler warnings;
  try {
    run();
  } catch (...) {
    warnings.set_in_exception();
    throw;
  }
}

}  // namespace gramme::aten
