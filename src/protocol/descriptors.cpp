// Binding class attributes to instances, and writing through data descriptors.
#include <Python.h>
#include <structmember.h>

#include "cpython/features.h"
#include "cpython/objects.h"
#include "protocol/attributes.h"
#include "protocol/names.h"
#include "source/constant.h"

namespace gramme::protocol {

using namespace value;
using namespace names;

namespace {

/// A descriptor's part (property.fget, classmethod.__func__, …); null if None.
Value* descriptor_part(Trace& trace, PyObject* found, Value* as_value, PyObject* part) {
  auto* made = as<Object>(trace.see(as_value));
  if (made && !made->existing()) {
    Attribute* known = find(made->slots, part);
    return known && trace.see(known->value) != trace.none() ? known->value : nullptr;
  }
  PyTypeObject* kind = PyObject_TypeCheck(found, &PyProperty_Type) ? &PyProperty_Type : Py_TYPE(found);
  PyObject* field = cpython::type_lookup(kind, part);
  Owned<> function = take(Py_TYPE(field)->tp_descr_get(field, found, reinterpret_cast<PyObject*>(kind)));
  return function.get() == Py_None ? nullptr : trace.pinned(trace.keep(function));
}

/// True for a property, or an existing instance of a subclass that inherits property's `__get__`.
bool is_property(Trace& trace, PyTypeObject* kind, Value* as_value) {
  if (kind == &PyProperty_Type) return true;
  return PyType_IsSubtype(kind, &PyProperty_Type) && as_value->existing() &&
         trace.type_lookup(kind, k_get) == cpython::type_lookup(&PyProperty_Type, k_get);
}

Value* method(Trace& trace, Value* function, Value* self) {
  auto* made = trace.make<Method>();
  made->function = function;
  made->self = self;
  return made;
}

}  // namespace

Value* bind(Trace& trace, PyObject* found, Value* as_value, Value* object, PyTypeObject* type) {
  PyTypeObject* kind = Py_TYPE(found);
  const bool is_partial = GRAMME_PYTHON_PARTIALS_BIND && trace.see(as_value)->kind == Kind::Partial;
  if (kind == &PyFunction_Type || is_partial) return object ? method(trace, as_value, object) : as_value;
  if (kind == &PyMethodDescr_Type || kind == &PyWrapperDescr_Type || kind == &PyClassMethodDescr_Type) {
    if (!object && kind != &PyClassMethodDescr_Type) return as_value;
    PyTypeObject* given = kind == &PyClassMethodDescr_Type ? type : type_of(trace.see(object));
    if (!PyType_IsSubtype(given, reinterpret_cast<PyDescrObject*>(found)->d_type))
      cannot(Reason::AttributeUnknown, "a method in C on an object of another class");
    auto* method = trace.make<BuiltinMethod>(nullptr, found);
    method->self = kind == &PyClassMethodDescr_Type ? class_value(trace, type) : object;
    return method;
  }
  if (kind == &PyClassMethod_Type || kind == &PyStaticMethod_Type) {
    Value* inner = trace.see(descriptor_part(trace, found, as_value, k_func));
    if (kind == &PyStaticMethod_Type) return inner;
    Owned<> raw = inner->object ? share(inner->object) : stand_in(trace, inner);
    if (!GRAMME_PYTHON_CLASSMETHODS_CHAIN || !Py_TYPE(raw.get())->tp_descr_get)
      return method(trace, inner, class_value(trace, type));
    return bind(trace, raw.get(), inner,
                object && trace.see(object)->kind == Kind::Class && !PyType_IsSubtype(type, &PyType_Type)
                    ? object
                    : class_value(trace, type),
                type);
  }
  if (PyInstanceMethod_Check(found)) {
    Value* inner = trace.pinned(PyInstanceMethod_GET_FUNCTION(found));
    return object ? method(trace, trace.see(inner), object) : inner;
  }
  if ((kind == &PyGetSetDescr_Type || kind == &PyMemberDescr_Type) && !object) return as_value;
  if (is_property(trace, kind, as_value)) {
    if (!object) return as_value;
    Value* getter = descriptor_part(trace, found, as_value, k_fget);
    if (!getter) raise(trace, PyExc_AttributeError, "property has no getter");
    return call(trace, getter, {object});
  }
  const bool may_get = kind->tp_descr_get || kind->tp_flags & Py_TPFLAGS_HEAPTYPE;  // or may get __get__ later
  if (!may_get || PyType_Check(found)) return as_value;
  PyObject* get = trace.type_lookup(kind, k_get);
  if (!kind->tp_descr_get) return as_value;
  if (get && PyFunction_Check(get))
    return call(trace, trace.type_attribute(kind, k_get),
                {as_value, object ? object : trace.none(), class_value(trace, type)});
  if (PyCFunction_Check(found)) return as_value;
  if (auto model = get ? find_model(get) : Modelled{}) {
    Value* values[] = {as_value, object ? object : trace.none(), class_value(trace, type)};
    return model(trace, Args{values, 3, nullptr, 0});
  }
  auto* tuple = object ? as<Tuple>(payload_of(trace, object)) : nullptr;
  if (Value* field = tuple && !Py_IS_TYPE(found, &PyMemberDescr_Type) ? tuple_field(tuple, found, nullptr) : nullptr)
    return field;
  cannot(Reason::AttributeUnknown, std::string("a descriptor of type ") + kind->tp_name);
}

namespace {

bool is_exception_or_none(Trace& trace, Value* value) {
  auto* base = reinterpret_cast<PyTypeObject*>(PyExc_BaseException);
  return trace.see(value) == trace.none() || PyType_IsSubtype(type_of(trace.see(value)), base);
}

/// Sets a C field of an exception; false for other names.
bool set_exception_field(Trace& trace, Object* object, PyObject* name, Value* value) {
  if ((name == k_cause || name == k_context) && !is_exception_or_none(trace, value)) return false;
  if ((name == k_cause || name == k_context) && trace.exceptions.leads_to(value, object)) return false;  // a cycle
  if (name == k_traceback && trace.see(value) != trace.none() && type_of(trace.see(value)) != &PyTraceBack_Type)
    return false;
  if (name == k_suppress_context && type_of(trace.see(value)) != &PyBool_Type) return false;
  trace.confinement.changes(object);
  if (name == k_cause)
    object->cause = value, object->suppress_context = true;
  else if (name == k_context)
    object->context = value;
  else if (name == k_suppress_context)
    object->suppress_context = truth(trace, value);
  else if (name == k_args)
    object->payload = trace.tuple(items_of_tuple(trace, value));
  else if (name == k_traceback)
    object->retraced = true;
  else
    return false;
  return true;
}

bool is_made_by_object(PyTypeObject* type) {
  return type->tp_flags & Py_TPFLAGS_HEAPTYPE && type->tp_new == PyBaseObject_Type.tp_new;
}

/// object.__class__ = value; asks CPython whether the two real types allow it.
void set_class(Trace& trace, Object* object, Value* value) {
  static PyObject* const finalizer = intern("__del__");
  auto* cls = trace.see_as<Class>(value);
  if (!is_made_by_object(object->type) || trace.type_lookup(object->type, finalizer) || object->payload)
    cannot(Reason::MutationUnsupported, "the class of a " + std::string(object->type->tp_name));
  Owned<> none = take(PyTuple_New(0)), given = cls ? share(cls->object) : stand_in(trace, trace.see(value));
  Owned<> like = take(PyBaseObject_Type.tp_new(object->type, none.get(), nullptr));
  if (cls && trace.type_lookup(cls->type(), finalizer)) cannot(Reason::MutationUnsupported, "a class with __del__");
  if (PyObject_GenericSetAttr(like.get(), k_class, given.get()) < 0) raise_current(trace);
  trace.confinement.changes(object);
  if (object->existing()) trace.store_slot_attribute(object, k_class, cls);
  object->type = cls->type();
}

/// Sets a field of an object made in the capture by a model: its C type has the field, the object a slot for it.
bool set_modelled_field(Trace& trace, Object* object, PyObject* name, Value* value) {
  if (object->existing() || !value || !find(object->slots, name) || cpython::builtin_base(object->type)) return false;
  trace.store_slot_attribute(object, name, value);
  return true;
}

void set_through_getset(Trace& trace, Object* object, PyObject* name, Value* value) {
  if (name == k_class && value) return set_class(trace, object, value);
  if (set_modelled_field(trace, object, name, value)) return;
  bool exception = PyType_IsSubtype(object->type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)) &&
                   !object->existing() && value;
  if (!exception || !set_exception_field(trace, object, name, value))
    cannot(Reason::MutationUnsupported, "attribute " + text_of(name) + " of a " + object->type->tp_name);
}

void set_through_member(Trace& trace, Object* object, PyObject* found, PyObject* name, Value* value) {
  const bool read_only = reinterpret_cast<PyMemberDescrObject*>(found)->d_member->flags & READONLY;
  if (read_only || cpython::slot_offset(found, object->type) < 0)
    cannot(Reason::MutationUnsupported, "a member of a type in C");
  if (!value && !trace.slot_attribute(object, name)) raise(trace, PyExc_AttributeError, text_of(name));
  trace.store_slot_attribute(object, name, value);
}

std::string qualified_name(PyTypeObject* type) {
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) return text_of(reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname);
  const std::string_view name = type->tp_name;
  return std::string(name.substr(name.rfind('.') + 1));
}

void set_through_property(Trace& trace, Value* object, PyTypeObject* type, PyObject* found, PyObject* name,
                          Value* value) {
  Value* setter = descriptor_part(trace, found, trace.type_attribute(type, name), value ? k_fset : k_fdel);
  if (!setter)
    raise(trace, PyExc_AttributeError,
          "property '" + text_of(name) + "' of '" + qualified_name(type) + "' object has no " +
              (value ? "setter" : "deleter"));
  if (value)
    call(trace, setter, {object, value});
  else
    call(trace, setter, {object});
}

void set_through_hook(Trace& trace, Value* object, PyTypeObject* type, PyObject* found, PyObject* name, Value* value) {
  PyTypeObject* kind = Py_TYPE(found);
  PyObject* hook_name = value ? k_set : k_delete;
  PyObject* hook = trace.type_lookup(kind, hook_name);
  if (!hook || !PyFunction_Check(hook))
    cannot(Reason::MutationUnsupported, std::string("a descriptor of type ") + kind->tp_name);
  Value* as_value = trace.type_attribute(type, name);
  if (value)
    call(trace, trace.type_attribute(kind, hook_name), {as_value, object, value});
  else
    call(trace, trace.type_attribute(kind, hook_name), {as_value, object});
}

}  // namespace

/// True if the attribute's type has __set__ or __delete__, guarded for classes that the program can change.
bool is_data_descriptor(Trace& trace, PyObject* found) {
  PyTypeObject* type = Py_TYPE(found);
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
    static PyObject* const names[] = {intern("__set__"), intern("__delete__")};
    for (PyObject* name : names) trace.type_lookup(type, name);
  }
  return type->tp_descr_set != nullptr;
}

bool descriptor_took(Trace& trace, Value* object, PyTypeObject* type, PyObject* found, PyObject* name, Value* value) {
  if (!found || !is_data_descriptor(trace, found)) return false;
  auto* instance = as<Object>(object);
  if (Py_IS_TYPE(found, &PyProperty_Type))
    set_through_property(trace, object, type, found, name, value);
  else if (!Py_IS_TYPE(found, &PyMemberDescr_Type) && !Py_IS_TYPE(found, &PyGetSetDescr_Type))
    set_through_hook(trace, object, type, found, name, value);
  else if (!instance)
    cannot(Reason::MutationUnsupported, "attribute " + text_of(name) + " of a class");
  else if (Py_IS_TYPE(found, &PyMemberDescr_Type))
    set_through_member(trace, instance, found, name, value);
  else
    set_through_getset(trace, instance, name, value);
  return true;
}

}  // namespace gramme::protocol
