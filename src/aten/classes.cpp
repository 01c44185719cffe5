#include "aten/classes.h"

#include <torch/csrc/autograd/python_variable.h>

namespace gramme::aten {

PyTypeObject* parameter_type() {
  static PyObject* type = [] {
    Owned<> module = take(PyImport_ImportModule("torch.nn.parameter"));
    return take(PyObject_GetAttrString(module.get(), "Parameter")).release();
  }();
  return reinterpret_cast<PyTypeObject*>(type);
}

bool has_plain_class(PyObject* tensor) { return THPVariable_CheckExact(tensor) || Py_TYPE(tensor) == parameter_type(); }

}  // namespace gramme::aten
