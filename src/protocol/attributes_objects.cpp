// Attributes of instances of Python classes, as in object.__getattribute__ and object.__setattr__.
#include "base/imported.h"
#include "base/once.h"
#include "cpython/objects.h"
#include "protocol/attributes.h"
#include "protocol/names.h"
#include "protocol/numpy.h"
#include "protocol/subscript.h"
#include "protocol/texts.h"
#include "source/constant.h"

namespace gramme::protocol {

using namespace value;
using namespace names;

namespace {

Value* exception_attribute(Trace& trace, Object* object, PyObject* name) {
  if (object->existing()) cannot(Reason::AttributeUnknown, "an attribute of an exception that existed before");
  if (name == k_args) return object->payload;
  if (name == k_cause) return object->cause ? object->cause : trace.none();
  if (name == k_context) return object->context ? object->context : trace.none();
  if (name == k_suppress_context) return trace.boolean(object->suppress_context);
  PyObject* const stop_value =
      once([] { return take(PyObject_GetAttrString(PyExc_StopIteration, "value")).release(); });
  if (trace.type_lookup(object->type, name) == stop_value) {
    auto* args = as<Tuple>(object->payload);
    return args && !args->items.empty() ? args->items[0] : trace.none();
  }
  cannot(Reason::AttributeUnknown, "an attribute of an exception: " + text_of(name));
}

}  // namespace

Value* instance_dict(Trace& trace, Value* owner, Value*& known) {
  if (!known) {
    auto* dict = trace.make<InstanceDict>();
    dict->owner = owner;
    known = dict;
  }
  return known;
}

Value* c_descriptor(Trace& trace, Object* object, PyObject* found, PyObject* name) {
  if (Py_IS_TYPE(found, &PyMemberDescr_Type) && cpython::slot_offset(found, object->type) >= 0)
    return trace.slot_attribute(object, name);
  const bool readable =
      !Py_IS_TYPE(found, &PyGetSetDescr_Type) || reinterpret_cast<PyGetSetDescrObject*>(found)->d_getset->get;
  if (Attribute* part = object->existing() || !readable ? nullptr : find(object->slots, name)) return part->value;
  if (name == k_dict) return instance_dict(trace, object, object->dict);
  if (name == k_class) return class_value(trace, object->type);
  if (PyType_IsSubtype(object->type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)))
    return exception_attribute(trace, object, name);
  Value* self = object;
  if (Value* result = array_call(trace, found, Args{&self, 1, nullptr, 0})) return result;
  cannot(Reason::AttributeUnknown, std::string(object->type->tp_name) + "." + text_of(name));
}

namespace {

/// True for object.__getattribute__, also as inherited by C types.
bool is_generic(PyObject* getattribute) {
  return getattribute && Py_IS_TYPE(getattribute, &PyWrapperDescr_Type) &&
         reinterpret_cast<PyDescrObject*>(getattribute)->d_type->tp_getattro == PyObject_GenericGetAttr;
}

}  // namespace

Value* object_attribute(Trace& trace, Object* object, PyObject* name) {
  PyTypeObject* type = object->type;
  PyObject* hook = trace.type_lookup(type, k_getattribute);  // guards that none is added, as the next line does
  if (!trace.type_lookup(type, k_getattr) && is_generic(hook)) return generic_get_attribute(trace, object, name);
  Value* found = nullptr;
  const bool own = !is_generic(hook) && hook && (PyFunction_Check(hook) || find_model(hook));
  if (Value* part = typing_attribute(trace, object, name)) return part;
  if (!is_generic(hook) && !own) cannot(Reason::AttributeUnknown, std::string("an attribute of a ") + type->tp_name);
  try {
    if (own) return call(trace, trace.type_attribute(type, k_getattribute), {object, trace.constant(name)});
    found = generic_get_attribute(trace, object, name);
  } catch (const UserError& error) {  // raised by __getattribute__, a property or a descriptor
    if (!matches(trace, error.exception, trace.pinned(PyExc_AttributeError)) || !trace.type_lookup(type, k_getattr))
      throw;
  }
  if (found) return found;
  PyObject* fallback = trace.type_lookup(type, k_getattr);
  if (!fallback) return nullptr;
  found =
      call(trace, bind(trace, fallback, trace.type_attribute(type, k_getattr), object, type), {trace.constant(name)});
  if (fallback ==
      once([] { return take(PyObject_GetAttr(imported("torch.nn", "Module").get(), k_getattr)).release(); }))
    trace.scope().shown().look_at(found);
  return found;
}

Value* generic_get_attribute(Trace& trace, Value* value, PyObject* name) {
  value = trace.see(value);
  auto* object = as<Object>(value);
  if (!object) return find_attribute(trace, value, name);
  PyObject* found = trace.type_lookup(object->type, name);
  if (found && is_data_descriptor(trace, found)) {
    if (Py_IS_TYPE(found, &PyMemberDescr_Type) || Py_IS_TYPE(found, &PyGetSetDescr_Type))
      return c_descriptor(trace, object, found, name);
    return bind(trace, found, trace.type_attribute(object->type, name), object, object->type);
  }
  if (has_instance_dict(object->type))
    if (Value* own = trace.own_attribute(object, name)) return own;
  if (!found) return nullptr;
  return bind(trace, found, trace.type_attribute(object->type, name), object, object->type);
}

void set_on_object(Trace& trace, Object* object, PyObject* name, Value* value) {
  PyObject* const object_setattr = once([] { return cpython::type_lookup(&PyBaseObject_Type, k_setattr); });
  PyObject* const object_delattr = once([] { return cpython::type_lookup(&PyBaseObject_Type, k_delattr); });
  PyObject* hook_name = value ? k_setattr : k_delattr;
  PyObject* hook = trace.type_lookup(object->type, hook_name);
  bool generic =
      object->type->tp_setattro == PyObject_GenericSetAttr || hook == (value ? object_setattr : object_delattr);
  if (generic) return generic_set_attribute(trace, object, name, value);
  if (!hook || !(PyFunction_Check(hook) || find_model(hook)))
    cannot(Reason::MutationUnsupported, std::string("an attribute of a ") + object->type->tp_name);
  Value* method = trace.type_attribute(object->type, hook_name);
  if (value)
    call(trace, method, {object, trace.constant(name), value});
  else
    call(trace, method, {object, trace.constant(name)});
}

void generic_set_attribute(Trace& trace, Value* target, PyObject* name, Value* value) {
  auto* object = trace.see_as<Object>(target);
  if (!object) return write_attribute(trace, target, name, value);
  PyObject* found = trace.type_lookup(object->type, name);
  if (descriptor_took(trace, object, object->type, found, name, value)) return;
  if (!has_instance_dict(object->type)) {
    if (found)
      raise(trace, PyExc_AttributeError,
            std::string("'") + object->type->tp_name + "' object attribute '" + text_of(name) + "' is read-only");
    raise(trace, PyExc_AttributeError, no_place_text(object->type, name));
  }
  if (!value && !trace.own_attribute(object, name))
    raise(trace, PyExc_AttributeError, no_attribute_text(trace, object->type, name));
  trace.store_own_attribute(object, name, value);
}

}  // namespace gramme::protocol
