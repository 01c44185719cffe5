// Instances are made by object.__new__ and tuple.__new__; attributes are stored as by object.__setattr__.
#include "trace/made_instance.h"

namespace gramme::trace {

using namespace value;

Owned<> made_instance(PyTypeObject* of, const Attributes& attributes,
                      const std::function<Owned<>(const Attribute&)>& real) {
  PyObject* type = reinterpret_cast<PyObject*>(of);
  Owned<> made = take(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__new__", "O", type));
  for (const Attribute& attribute : attributes) {
    const Owned<> value = real(attribute);
    if (!value) return {};
    check(PyObject_GenericSetAttr(made.get(), attribute.name, value.get()));
  }
  return made;
}

Owned<> made_tuple(PyTypeObject* type, Owned<> plain) {
  if (type == &PyTuple_Type) return plain;
  const Owned<> args = take(PyTuple_Pack(1, plain.get()));
  return take(PyTuple_Type.tp_new(type, args.get(), nullptr));
}

}  // namespace gramme::trace
