// Attribute access: class, instance and hooks in the order of object.__getattribute__; dispatch by kind of value.
#include "protocol/attributes.h"

#include "base/process.h"
#include "cpython/objects.h"
#include "protocol/names.h"
#include "protocol/texts.h"

namespace gramme::protocol {

using namespace value;
using namespace names;

namespace {

AtLoad<TensorAttributes> tensor_attributes;

/// True if the attribute is a method that is found without a call.
bool is_method(Trace& trace, Value* value, PyObject* name) {
  PyObject* found = trace.type_lookup(type_of(value), name);
  return found && (Py_IS_TYPE(found, &PyMethodDescr_Type) || PyFunction_Check(found));
}

/// An attribute from the module's class: a descriptor of a subclass, or a method that every module has. Null if there
/// is none.
Value* attribute_of_module_class(Trace& trace, Module* module, PyObject* name, PyObject* found) {
  PyTypeObject* type = Py_TYPE(module->object);
  if (name == k_class) return class_value(trace, type);
  if (!found) return nullptr;
  if (Py_IS_TYPE(found, &PyGetSetDescr_Type) || Py_IS_TYPE(found, &PyMemberDescr_Type))
    cannot(Reason::AttributeUnknown, "the " + text_of(name) + " of a module");
  return bind(trace, found, trace.type_attribute(type, name), module, type);
}

/// types.ModuleType.__getattribute__, then the class's `__getattr__`.
Value* module_attribute(Trace& trace, Module* module, PyObject* name) {
  PyTypeObject* type = Py_TYPE(module->object);
  auto* names = static_cast<Namespace*>(module->names);
  PyObject* found = nullptr;
  if (type != &PyModule_Type) {
    if (trace.type_lookup(type, k_getattribute) != cpython::type_lookup(&PyModule_Type, k_getattribute))
      cannot(Reason::AttributeUnknown, "an attribute that a module makes on demand");
    found = trace.type_lookup(type, name);
    if (found && is_data_descriptor(trace, found)) return attribute_of_module_class(trace, module, name, found);
  }
  if (Value* own = trace.global(names, name)) return own;
  if (type == &PyModule_Type) found = cpython::type_lookup(type, name);
  if (Value* inherited = attribute_of_module_class(trace, module, name, found)) return inherited;
  if (Value* fallback = trace.global(names, k_getattr)) return call(trace, fallback, {trace.constant(name)});
  Value* fallback = type == &PyModule_Type ? nullptr : special_method(trace, module, k_getattr);
  return fallback ? call(trace, fallback, {trace.constant(name)}) : nullptr;
}

/// The attribute; null if there is none. A user's hook may raise AttributeError instead.
Value* attribute_of(Trace& trace, Value* value, PyObject* name) {
  value = trace.see(value);
  switch (value->kind) {
    case Kind::Object:
      return object_attribute(trace, static_cast<Object*>(value), name);
    case Kind::Module:
      return module_attribute(trace, static_cast<Module*>(value), name);
    case Kind::Class:
      return class_attribute(trace, static_cast<Class*>(value), name);
    case Kind::Function:
      return function_attribute(trace, static_cast<Function*>(value), name);
    case Kind::Method:
      return method_attribute(trace, static_cast<Method*>(value), name);
    case Kind::Super:
      return super_attribute(trace, static_cast<Super*>(value), name);
    case Kind::Tensor:
      if (trace.scope().modes().in_function_mode() && !is_method(trace, value, name))
        cannot(Reason::CallUnknown, "an attribute of a tensor that a torch function mode sees");
      return tensor_attributes->get(trace, static_cast<Tensor*>(value), name);
    case Kind::Namespace:
      cannot(Reason::AttributeUnknown, "globals as a dict");
    case Kind::Lazy:
    case Kind::Constant:
    case Kind::Number:
    case Kind::Tuple:
    case Kind::List:
    case Kind::Dict:
    case Kind::Set:
    case Kind::Deque:
    case Kind::Slice:
    case Kind::View:
    case Kind::Iterator:
    case Kind::Generator:
    case Kind::Cell:
    case Kind::Builtin:
    case Kind::BuiltinMethod:
    case Kind::InstanceDict:
    case Kind::Partial:
    case Kind::Null:
      return builtin_attribute(trace, value, name);
  }
  GRAMME_BUG("a value of no kind");
}

/// Ends the segment for a C descriptor that no model handled: whether the attribute exists is unknown.
void refuse_unmodelled(Trace& trace, Value* value, PyObject* name) {
  value = trace.see(value);
  const bool told = value->kind == Kind::Object || value->kind == Kind::Class || value->kind == Kind::Tensor;
  PyObject* found = told ? nullptr : trace.type_lookup(type_of(value), name);
  if (found) cannot(Reason::AttributeUnknown, std::string(type_of(value)->tp_name) + "." + text_of(name));
}

}  // namespace

void set_tensor_attributes(TensorAttributes attributes) { tensor_attributes.fill() = attributes; }

Value* find_attribute(Trace& trace, Value* value, PyObject* name) {
  try {
    Value* found = attribute_of(trace, value, name);
    if (!found) refuse_unmodelled(trace, value, name);
    return found;
  } catch (const UserError& error) {
    if (!matches(trace, error.exception, trace.pinned(PyExc_AttributeError))) throw;
    return nullptr;
  }
}

Value* get_attribute(Trace& trace, Value* value, PyObject* name) {
  if (Value* found = attribute_of(trace, value, name)) return found;
  refuse_unmodelled(trace, value, name);
  value = trace.see(value);
  std::string attribute = text_of(name);
  if (value->kind == Kind::Class)
    raise(trace, PyExc_AttributeError,
          std::string("type object '") + reinterpret_cast<PyTypeObject*>(value->object)->tp_name +
              "' has no attribute '" + attribute + "'");
  if (value->kind == Kind::Module)
    raise(trace, PyExc_AttributeError,
          std::string("module '") + PyModule_GetName(value->object) + "' has no attribute '" + attribute + "'");
  raise(trace, PyExc_AttributeError, no_attribute_text(trace, type_of(value), name));
}

Value* special_method(Trace& trace, Value* object, PyObject* name) {
  object = trace.see(object);
  PyTypeObject* type = type_of(object);
  PyObject* found = trace.type_lookup(type, name);
  return found ? bind(trace, found, trace.type_attribute(type, name), object, type) : nullptr;
}

namespace {

void store_in_module(Trace& trace, Module* module, PyObject* name, Value* value) {
  auto* names = static_cast<Namespace*>(module->names);
  if (!value && !trace.global(names, name))
    raise(trace, PyExc_AttributeError,
          "'" + std::string(Py_TYPE(module->object)->tp_name) + "' object has no attribute '" + text_of(name) + "'");
  trace.store_global(names, name, value);
}

/// Raises the TypeError of assigning to `__class__` of an instance of a builtin type.
[[noreturn]] void refuse_class(Trace& trace, Value* target, Value* value) {
  value = trace.see(value);
  if (target->kind == Kind::Class) cannot(Reason::MutationUnsupported, "the metaclass of a class");
  if (value->kind != Kind::Class)
    raise(trace, PyExc_TypeError,
          std::string("__class__ must be set to a class, not '") + type_of(value)->tp_name + "' object");
  raise(trace, PyExc_TypeError, "__class__ assignment only supported for mutable types or ModuleType subclasses");
}

}  // namespace

void write_attribute(Trace& trace, Value* target, PyObject* name, Value* value) {
  target = trace.see(target);
  switch (target->kind) {
    case Kind::Object:
      return set_on_object(trace, static_cast<Object*>(target), name, value);
    case Kind::Module:
      return store_in_module(trace, static_cast<Module*>(target), name, value);
    case Kind::Function:
      return store_in_function(trace, static_cast<Function*>(target), name, value);
    case Kind::Tensor:
      if (trace.scope().modes().in_function_mode())
        cannot(Reason::CallUnknown, "an attribute of a tensor that a torch function mode sees");
      return tensor_attributes->set(trace, static_cast<Tensor*>(target), name, value);
    case Kind::Partial:
      return store_held_attribute(trace, target, name, value);
    case Kind::Dict:
      if (text_of(name) == "default_factory" && trace.type_lookup(type_of(target), name)) {
        if (target->existing())
          cannot(Reason::MutationUnsupported, "default_factory of a dict created before the capture");
        static_cast<Dict*>(target)->factory = value && trace.see(value) != trace.none() ? value : nullptr;
        return;
      }
      if (!has_instance_dict(type_of(target))) break;
      return store_held_attribute(trace, target, name, value);
    case Kind::Cell:
      if (text_of(name) == "cell_contents") return trace.store_cell(static_cast<Cell*>(target), value);
      break;
    case Kind::Lazy:
    case Kind::Constant:
    case Kind::Number:
    case Kind::Tuple:
    case Kind::List:
    case Kind::Set:
    case Kind::Deque:
    case Kind::Slice:
    case Kind::View:
    case Kind::Iterator:
    case Kind::Generator:
    case Kind::Method:
    case Kind::Builtin:
    case Kind::BuiltinMethod:
    case Kind::Class:
    case Kind::Namespace:
    case Kind::InstanceDict:
    case Kind::Super:
    case Kind::Null:
      break;
  }
  if (name == k_class && value) refuse_class(trace, target, value);
  if (target->kind == Kind::Class) return store_in_class(trace, static_cast<Class*>(target), name, value);
  std::string attribute = text_of(name);
  PyTypeObject* type = type_of(target);
  PyObject* field = trace.type_lookup(type, name);
  const bool generic = type->tp_setattro == PyObject_GenericSetAttr;
  auto* tuple = field && generic && !Py_IS_TYPE(field, &PyMemberDescr_Type) ? as<Tuple>(target) : nullptr;
  if (tuple && tuple_field(tuple, field, name))
    raise(trace, PyExc_AttributeError, value ? "can't set attribute" : "can't delete attribute");
  if ((field && is_data_descriptor(trace, field)) || !generic || has_instance_dict(type))
    cannot(Reason::MutationUnsupported, "the attribute " + attribute + " of a " + type->tp_name);
  if (field)
    raise(trace, PyExc_AttributeError,
          std::string("'") + type_of(target)->tp_name + "' object attribute '" + attribute + "' is read-only");
  raise(trace, PyExc_AttributeError, no_place_text(type_of(target), name));
}

void set_attribute(Trace& trace, Value* object, PyObject* name, Value* value) {
  write_attribute(trace, object, name, value);
}

void delete_attribute(Trace& trace, Value* object, PyObject* name) { write_attribute(trace, object, name, nullptr); }

}  // namespace gramme::protocol
