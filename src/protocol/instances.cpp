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
    PyObject* const module = once([] { return import_module("_abc"); });
    return call(trace, trace.pinned(trace.keep(take(PyObject_GetAttrString(module, name)))), {cls, subject});
  }
  return call(trace, trace.type_attribute(meta, hook_name), {cls, subject});
}

/// type.__subclasscheck__ of two classes, and modelled checks of metaclasses; others run code and end the segment.
bool real_subclass(Trace& trace, PyTypeObject* type, Class* cls) {
  for (PyObject* name : {k_instancecheck, k_subclasscheck})
    if (PyObject* hook = trace.type_lookup(Py_TYPE(cls->object), name);
        hook != cpython::type_lookup(&PyType_Type, name) && !PyFunction_Check(hook) && !find_model(hook))
      cannot(Reason::OpaqueCallback, std::string("an instance check of a ") + Py_TYPE(cls->object)->tp_name);
  return trace.is_subtype(type, cls->type());
}

/// Ends the segment if the program's code would compute `__class__`, which CPython reads if the type is no subclass.
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

PyTypeObject* typing_type(const char* name) { return imported_type("typing", name); }

/// True for forms such as `typing.List`, which stand for the class they name.
bool is_bare_alias(PyObject* object) {
  PyTypeObject* const special = once([] { return typing_type("_SpecialGenericAlias"); });
  PyTypeObject* const tuple = once([] { return typing_type("_TupleType"); });
  PyTypeObject* const callable = once([] { return typing_type("_CallableType"); });
  return Py_IS_TYPE(object, special) || Py_IS_TYPE(object, tuple) || Py_IS_TYPE(object, callable);
}

/// The classes of `int | str` or `typing.Optional[int]` as a tuple, or the class of a bare alias; null for others.
Value* classes_of(Trace& trace, PyObject* object) {
  PyTypeObject* const alternatives = once([] { return imported_type("types", "UnionType"); });
  PyTypeObject* const optional = once([] { return typing_type("_UnionGenericAlias"); });
  if (is_bare_alias(object)) {
    Owned<> origin = take(PyObject_GetAttrString(object, "__origin__"));
    return PyType_Check(origin.get()) ? trace.pinned(trace.keep(std::move(origin))) : nullptr;
  }
  if (!Py_IS_TYPE(object, alternatives) && !Py_IS_TYPE(object, optional)) return nullptr;
  Owned<> parts = take(PyObject_GetAttrString(object, "__args__"));
  std::vector<Value*> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts.get()); ++i) {
    PyObject* part = PyTuple_GET_ITEM(parts.get(), i);
    if (!PyType_Check(part)) return nullptr;
    items.push_back(trace.pinned(part));
  }
  return trace.tuple(std::move(items));
}

/// True for values that neither are classes nor can act as one.
bool is_plain_data(Value* seen) {
  if (seen->kind != Kind::Constant) return false;
  PyTypeObject* type = Py_TYPE(seen->object);
  for (PyTypeObject* plain :
       {Py_TYPE(Py_None), &PyBool_Type, &PyLong_Type, &PyFloat_Type, &PyComplex_Type, &PyUnicode_Type, &PyBytes_Type})
    if (type == plain) return true;
  return false;
}

/// The classes named by the second argument of isinstance() or issubclass(): a Class, a Tuple, or an Object with its
/// own check in Python. Raises CPython's TypeError for data.
Value* named_classes(Trace& trace, Value* classinfo, PyObject* check, const char* text) {
  classinfo = trace.see(classinfo);
  if (classinfo->kind == Kind::Class) return classinfo;
  PyTypeObject* type = type_of(classinfo);
  if (classinfo->kind == Kind::Tuple) return classinfo;
  if (Value* classes = classinfo->kind == Kind::Constant ? classes_of(trace, classinfo->object) : nullptr)
    return classes;
  if (is_plain_data(classinfo)) raise(trace, PyExc_TypeError, text);
  PyObject* hook = classinfo->kind == Kind::Object ? trace.type_lookup(type, check) : nullptr;
  if (hook && PyFunction_Check(hook) && !PyType_IsSubtype(type, &PyTuple_Type)) return classinfo;
  cannot(Reason::ArgumentKind, std::string("a check whether something is an instance of a ") + type->tp_name);
}

}  // namespace

bool isinstance(Trace& trace, Value* object, Value* classinfo) {
  classinfo = named_classes(trace, classinfo, k_instancecheck,
                            "isinstance() arg 2 must be a type, a tuple of types, or a union");
  if (auto* several = as<Tuple>(classinfo)) {
    Trace::Deeper deeper(trace);
    for (Value* one : several->items)
      if (isinstance(trace, object, one)) return true;
    return false;
  }
  object = trace.see(object);
  auto* cls = as<Class>(classinfo);
  if (!cls) return truth(trace, call(trace, special_method(trace, classinfo, k_instancecheck), {object}));
  PyTypeObject* type = type_of(object);
  if (type == cls->type()) return true;
  if (!PyType_IsSubtype(type, cls->type())) refuse_own_class(trace, object);
  if (Value* answer = instance_check_by_python(trace, cls, k_instancecheck, object)) return truth(trace, answer);
  return real_subclass(trace, type, cls);
}

bool issubclass(Trace& trace, Value* cls, Value* classinfo) {
  if (is_plain_data(trace.see(classinfo)) && trace.see(cls)->kind != Kind::Class)  // CPython looks at `cls` first
    cannot(Reason::ArgumentKind, "issubclass() of an object that is not a class");
  classinfo = named_classes(trace, classinfo, k_subclasscheck,
                            "issubclass() arg 2 must be a class, a tuple of classes, or a union");
  if (auto* several = as<Tuple>(classinfo)) {
    Trace::Deeper deeper(trace);
    for (Value* one : several->items)
      if (issubclass(trace, cls, one)) return true;
    return false;
  }
  Value* given = trace.see(cls);
  auto* of = as<Class>(classinfo);
  if (!of) return truth(trace, call(trace, special_method(trace, classinfo, k_subclasscheck), {given}));
  auto* subject = as<Class>(given);
  if (!subject && is_plain_data(given) && Py_IS_TYPE(of->object, &PyType_Type))
    raise(trace, PyExc_TypeError, "issubclass() arg 1 must be a class");
  if (!subject) cannot(Reason::ArgumentKind, "issubclass() of a " + std::string(type_of(given)->tp_name));
  if (Value* answer = instance_check_by_python(trace, of, k_subclasscheck, subject)) return truth(trace, answer);
  return real_subclass(trace, subject->type(), of);
}

bool callable(Trace& trace, Value* object) {
  object = trace.see(object);
  if (object->kind != Kind::Object && has(object->kind, CALLABLE)) return true;
  return trace.type_lookup(type_of(object), k_call) != nullptr;
}

}  // namespace gramme::protocol
