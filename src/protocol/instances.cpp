// isinstance(), issubclass() and callable().
#include "base/imported.h"
#include "base/once.h"
#include "cpython/objects.h"
#include "protocol/names.h"
#include "protocol/protocol.h"
#include "value/traits.h"

namespace gramme::protocol {

using namespace value;
using namespace names;

namespace {

Value* instance_check_by_python(Trace& trace, Class* cls, PyObject* hook_name, Value* subject) {
  PyTypeObject* meta = Py_TYPE(cls->object);
  PyObject* hook = trace.type_lookup(meta, hook_name);
  auto model = hook ? find_model(hook) : Modelled{};
  if (model && hook != cpython::type_lookup(&PyType_Type, hook_name)) {
    Value* values[] = {cls, subject};
    return model(trace, Args{values, 2, nullptr, 0});
  }
  if (!hook || !PyFunction_Check(hook)) return nullptr;
  PyTypeObject* const abc = once([] { return imported_type("abc", "ABCMeta"); });
  if (hook == cpython::type_lookup(abc, hook_name)) {
    const char* name = hook_name == k_instancecheck ? "_abc_instancecheck" : "_abc_subclasscheck";
    PyObject* const module = once([] { return PyImport_ImportModule("_abc"); });
    return call(trace, trace.pinned(trace.keep(take(PyObject_GetAttrString(module, name)))), {cls, subject});
  }
  return call(trace, trace.type_attribute(meta, hook_name), {cls, subject});
}

bool real_subclass(Trace& trace, PyTypeObject* type, PyObject* cls) {
  if (PyType_Check(cls) && trace.is_subtype(type, reinterpret_cast<PyTypeObject*>(cls))) return true;
  return check(PyObject_IsSubclass(reinterpret_cast<PyObject*>(type), cls)) > 0;
}

/// An object that is no instance by its type is asked for its `__class__`, by code of the program where it has some.
void refuse_own_class(Trace& trace, Value* object) {
  static PyObject* const getattribute = intern("__getattribute__");
  if (object->kind != Kind::Object) return;
  PyTypeObject* type = static_cast<Object*>(object)->type;
  for (PyObject* name : {k_class, getattribute}) {
    PyObject* found = trace.type_lookup(type, name);
    bool in_c = found && (Py_IS_TYPE(found, &PyGetSetDescr_Type) || Py_IS_TYPE(found, &PyWrapperDescr_Type));
    if (!in_c)
      cannot(Reason::OpaqueCallback, std::string("isinstance() of a ") + type->tp_name + ", which tells its own class");
  }
}

/// `int | str`: one after the other.
Value* parts_of_union(Trace& trace, Value* classinfo) {
  static PyObject* const args = intern("__args__");
  if (classinfo->kind != Kind::Constant) return nullptr;
  Owned<> parts = Owned<>::steal(PyObject_GetAttr(classinfo->object, args));
  if (!parts) PyErr_Clear();
  if (!parts || !PyTuple_Check(parts.get())) return nullptr;
  std::vector<Value*> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts.get()); ++i) {
    PyObject* part = PyTuple_GET_ITEM(parts.get(), i);
    if (!PyType_Check(part)) return nullptr;
    items.push_back(trace.pinned(part));
  }
  return trace.tuple(std::move(items));
}

}  // namespace

bool isinstance(Trace& trace, Value* object, Value* classinfo) {
  classinfo = trace.see(classinfo);
  if (Value* parts = parts_of_union(trace, classinfo)) classinfo = parts;
  if (auto* several = as<Tuple>(classinfo)) {
    for (Value* one : several->items)
      if (isinstance(trace, object, one)) return true;
    return false;
  }
  object = trace.see(object);
  PyTypeObject* type = type_of(object);
  if (auto* cls = as<Class>(classinfo)) {
    if (type == cls->type()) return true;
    if (!PyType_IsSubtype(type, cls->type())) refuse_own_class(trace, object);
    if (Value* answer = instance_check_by_python(trace, cls, k_instancecheck, object)) return truth(trace, answer);
    return real_subclass(trace, type, cls->object);
  }
  if (classinfo->kind == Kind::Constant) return real_subclass(trace, type, classinfo->object);  // int | str
  if (auto* other = as<Object>(classinfo); other && other->object && !special_method(trace, other, k_instancecheck))
    raise(trace, PyExc_TypeError, "isinstance() arg 2 must be a type, a tuple of types, or a union");
  if (Value* check = special_method(trace, classinfo, k_instancecheck))
    return truth(trace, call(trace, check, {object}));
  raise(trace, PyExc_TypeError, "isinstance() arg 2 must be a type, a tuple of types, or a union");
}

bool issubclass(Trace& trace, Value* cls, Value* classinfo) {
  classinfo = trace.see(classinfo);
  if (Value* parts = parts_of_union(trace, classinfo)) classinfo = parts;
  if (auto* several = as<Tuple>(classinfo)) {
    for (Value* one : several->items)
      if (issubclass(trace, cls, one)) return true;
    return false;
  }
  auto* subject = trace.see_as<Class>(cls);
  if (!subject) raise(trace, PyExc_TypeError, "issubclass() arg 1 must be a class");
  if (auto* of = as<Class>(classinfo)) {
    if (Value* answer = instance_check_by_python(trace, of, k_subclasscheck, subject)) return truth(trace, answer);
    return real_subclass(trace, subject->type(), of->object);
  }
  if (classinfo->kind == Kind::Constant) return real_subclass(trace, subject->type(), classinfo->object);
  raise(trace, PyExc_TypeError, "issubclass() arg 2 must be a class, a tuple of classes, or a union");
}

bool callable(Trace& trace, Value* object) {
  object = trace.see(object);
  if (object->kind != Kind::Object && has(object->kind, CALLABLE)) return true;
  return trace.type_lookup(type_of(object), k_call) != nullptr;
}

}  // namespace gramme::protocol
