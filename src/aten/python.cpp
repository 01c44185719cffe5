// Conversions declared in python.h, classes.h and symbols.h: the functions that need torch's headers with pybind11.
#include "aten/python.h"

#include <torch/csrc/Exceptions.h>                // sees pybind11: for all others
#include <torch/csrc/autograd/python_variable.h>  // sees pybind11: for all others
#include <torch/csrc/utils/python_symnode.h>      // sees pybind11: for all others

#include <cstddef>

#include "aten/probe.h"
#include "aten/symbols.h"

namespace gramme::aten {

static_assert(offsetof(TensorObject, tensor) == offsetof(THPVariable, cdata));

Layout tensor_object_layout() {
  return {"the size of a tensor's object", sizeof(THPVariable), tensor_type()->tp_base->tp_basicsize};
}

bool is_tensor(PyObject* object) { return THPVariableClass && PyObject_TypeCheck(object, tensor_type()); }
bool is_exact_tensor_type(PyTypeObject* type) { return THPVariable_CheckTypeExact(type); }

namespace {

template <class Make>
Owned<> made_of(PyObject* tensor, Make&& make) {
  try {
    const c10::AutoGradMode recorded(true);
    return Owned<>::steal(THPVariable_Wrap(make(tensor_of(tensor))));
  } catch (...) {
    set_python_error(std::current_exception());
    return {};
  }
}

}  // namespace

Owned<> plain_of(PyObject* tensor) {
  return made_of(tensor, [](const at::Tensor& real) { return real.alias(); });
}

Owned<> plain_example(PyObject* tensor) {
  return made_of(tensor, [](const at::Tensor& real) {
    at::Tensor like = real.detach();
    if (!real.requires_grad()) return like;
    like.requires_grad_();
    return real.is_leaf() ? like : like.alias();
  });
}

Owned<> object_of(const at::TensorBase& tensor) { return take(THPVariable_Wrap(tensor)); }
Owned<> object_of(at::TensorBase&& tensor) { return take(THPVariable_Wrap(std::move(tensor))); }

bool is_symint(PyObject* object) { return torch::is_symint(object); }
bool is_symfloat(PyObject* object) { return torch::is_symfloat(object); }
bool is_symbool(PyObject* object) { return torch::is_symbool(object); }

namespace {

template <class Cast>
auto casting(Cast&& cast) {
  try {
    return cast();
  } catch (py::error_already_set& error) {
    error.restore();
    throw PythonError();
  }
}

}  // namespace

c10::SymInt symint_of(PyObject* object) {
  return casting([&] { return py::handle(object).cast<c10::SymInt>(); });
}
c10::SymFloat symfloat_of(PyObject* object) {
  return casting([&] { return py::handle(object).cast<c10::SymFloat>(); });
}

Owned<> object_of(const c10::SymInt& number) {
  return casting([&] { return Owned<>::steal(py::cast(number).release().ptr()); });
}
Owned<> symfloat_object(const c10::SymNode& node) {
  return casting([&] { return Owned<>::steal(torch::get_symfloat_class()(py::cast(node)).release().ptr()); });
}
c10::SymNode node_of(const c10::SymFloat& number) {
  c10::SymNode node = number.toSymNodeImpl();
  const auto* python = dynamic_cast<const torch::impl::PythonSymNodeImpl*>(node.get());
  if (!python) return node;
  const py::handle inner(python->pyobj_->ptr(getPyInterpreter()));
  return py::isinstance<c10::SymNodeImpl>(inner) ? inner.cast<c10::SymNode>() : node;
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
