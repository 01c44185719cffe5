// Makes an instance of a class as object.__new__ does, and stores its attributes as object.__setattr__ does.
#include "trace/made_instance.h"

#include "trace/capture.h"

namespace gramme::trace {

using namespace value;

Owned<> made_instance(Capture& capture, Object* object, const std::function<Owned<>(const Attribute&)>& real) {
  if (object->payload) return {};
  PyObject* type = reinterpret_cast<PyObject*>(object->type);
  Owned<> made = take(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__new__", "O", type));
  for (const Attribute& attribute : capture.all_attributes(object)) {
    const Owned<> value = real(attribute);
    if (!value) return {};
    check(PyObject_GenericSetAttr(made.get(), attribute.name, value.get()));
  }
  return made;
}

}  // namespace gramme::trace
