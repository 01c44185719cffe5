// Recognises the method wrappers `__get__` of torch's attribute descriptors.
#include "trace/getters.h"

#include "base/imported.h"
#include "base/once.h"
#include "torch/names.h"

namespace gramme::trace {

PyObject* attribute_of_getter(PyObject* object) {
  auto* const wrapper = once([] { return imported_type("types", "MethodWrapperType"); });
  static PyObject *const self = intern("__self__"), *const name = intern("__name__");
  if (!Py_IS_TYPE(object, wrapper)) return nullptr;
  Owned<> text = take(PyObject_GetAttr(object, name));
  if (PyUnicode_CompareWithASCIIString(text.get(), "__get__") != 0) return nullptr;
  PyObject* owner = take(PyObject_GetAttr(object, self)).get();  // the wrapper holds it
  PyTypeObject* const tensors = of_torch::type(of_torch::TensorBase);
  return Py_IS_TYPE(owner, &PyGetSetDescr_Type) && PyDescr_TYPE(owner) == tensors ? owner : nullptr;
}

}  // namespace gramme::trace
