// Attribute access: what the class says, then what the instance says, as object.__getattribute__ does.
#include "cpython/objects.h"
#include "protocol/names.h"
#include "protocol/protocol.h"
#include "source/constant.h"

namespace gramme::protocol {

using namespace value;
using namespace names;
using SK = source::Kind;

namespace {

TensorAttributes tensor_attributes;

bool is_data_descriptor(PyObject* found) { return Py_TYPE(found)->tp_descr_set != nullptr; }
bool has_instance_dict(PyTypeObject* type) { return type->tp_dictoffset != 0 || cpython::has_managed_dict(type); }
std::string text_of(PyObject* name) { return PyUnicode_AsUTF8(name); }

/// property.fget, fset or fdel as a value, null if None.
Value* property_part(Trace& trace, PyObject* property, const char* part) {
  Owned<> function = take(PyObject_GetAttrString(property, part));
  return function.get() == Py_None ? nullptr : trace.pinned(trace.keep(function));
}

Value* exception_attribute(Trace& trace, Object* object, PyObject* name) {
  if (object->existing()) cannot(Reason::AttributeUnknown, "an attribute of an exception that existed before");
  if (name == k_args) return object->payload;
  if (name == k_cause) return object->cause ? object->cause : trace.none();
  if (name == k_context) return object->context ? object->context : trace.none();
  if (name == k_suppress_context) return trace.boolean(object->suppress_context);
  static PyObject* stop_value = take(PyObject_GetAttrString(PyExc_StopIteration, "value")).release();
  if (trace.type_lookup(object->type, name) == stop_value) {
    auto* args = as<Tuple>(object->payload);
    return args && !args->items.empty() ? args->items[0] : trace.none();
  }
  cannot(Reason::AttributeUnknown, "an attribute of an exception: " + text_of(name));
}

/// A descriptor in C found on the class of an Object: members, getset, methods.
Value* c_descriptor(Trace& trace, Object* object, PyObject* found, PyObject* name) {
  if (Py_IS_TYPE(found, &PyMemberDescr_Type) && cpython::slot_offset(found, object->type) >= 0)
    return trace.slot_attribute(object, name);
  if (name == k_dict) {
    if (!object->dict) {
      auto* dict = trace.make<InstanceDict>();
      dict->owner = object;
      object->dict = dict;
    }
    return object->dict;
  }
  if (name == k_class) return class_value(trace, object->type);
  if (PyType_IsSubtype(object->type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)))
    return exception_attribute(trace, object, name);
  cannot(Reason::AttributeUnknown, std::string(object->type->tp_name) + "." + text_of(name));
}

/// object.__getattribute__, also as types in C inherit it.
bool is_generic(PyObject* getattribute) {
  return getattribute && Py_IS_TYPE(getattribute, &PyWrapperDescr_Type) &&
         reinterpret_cast<PyDescrObject*>(getattribute)->d_type->tp_getattro == PyObject_GenericGetAttr;
}

Value* object_attribute(Trace& trace, Object* object, PyObject* name) {
  PyTypeObject* type = object->type;
  PyObject* hook = trace.type_lookup(type, k_getattribute);  // guards that none is added, as the next line does
  if (!trace.type_lookup(type, k_getattr) && is_generic(hook)) return generic_get_attribute(trace, object, name);
  Value* found = nullptr;
  bool own = hook && PyFunction_Check(hook);
  if (!is_generic(hook) && !own) cannot(Reason::AttributeUnknown, std::string("an attribute of a ") + type->tp_name);
  try {
    if (own) return call(trace, trace.type_attribute(type, k_getattribute), {object, trace.constant(name)});
    found = generic_get_attribute(trace, object, name);
  } catch (const UserError& error) {  // of __getattribute__, a property or a descriptor
    if (!matches(trace, error.exception, trace.pinned(PyExc_AttributeError)) || !trace.type_lookup(type, k_getattr))
      throw;
  }
  if (found) return found;
  PyObject* fallback = trace.type_lookup(type, k_getattr);
  if (!fallback) return nullptr;
  return call(trace, bind(trace, fallback, trace.type_attribute(type, k_getattr), object, type),
              {trace.constant(name)});
}

Value* module_attribute(Trace& trace, Module* module, PyObject* name) {
  auto* names = static_cast<Namespace*>(module->names);
  if (Value* found = trace.global(names, name)) return found;
  if (name == k_class) return class_value(trace, Py_TYPE(module->object));
  if (name == k_dict) cannot(Reason::AttributeUnknown, "the __dict__ of a module");
  if (!Py_IS_TYPE(module->object, &PyModule_Type))
    cannot(Reason::AttributeUnknown, "an attribute that a module makes on demand");
  Value* fallback = trace.global(names, k_getattr);
  return fallback ? call(trace, fallback, {trace.constant(name)}) : nullptr;
}

Value* mro_value(Trace& trace, PyObject* tuple) {
  std::vector<Value*> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) items.push_back(trace.pinned(PyTuple_GET_ITEM(tuple, i)));
  return trace.tuple(std::move(items));
}

/// What `type` itself gives: names and bases. Null if it is none of them.
Value* type_getset(Trace& trace, PyTypeObject* type, PyObject* name) {
  if (name == k_mro) return mro_value(trace, type->tp_mro);
  if (name == k_bases) return mro_value(trace, type->tp_bases);
  if (name == k_class) return class_value(trace, Py_TYPE(type));
  bool textual = name == k_name || name == k_qualname || name == k_module || name == k_doc;
  if (!textual) return nullptr;
  Owned<> text = take(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name));
  return source::is_constant(text.get()) ? trace.constant(text) : nullptr;
}

Value* class_attribute(Trace& trace, Class* cls, PyObject* name) {
  PyTypeObject *type = cls->type(), *meta = Py_TYPE(type);
  if (Value* written = trace.written_class_attribute(type, name)) return written;
  if (Value* own = type_getset(trace, type, name)) return own;
  PyObject* on_meta = trace.type_lookup(meta, name);
  if (on_meta && is_data_descriptor(on_meta)) {
    if (Py_IS_TYPE(on_meta, &PyGetSetDescr_Type) || Py_IS_TYPE(on_meta, &PyMemberDescr_Type))
      cannot(Reason::AttributeUnknown, std::string(type->tp_name) + "." + text_of(name));
    return bind(trace, on_meta, trace.type_attribute(meta, name), cls, meta);
  }
  if (PyObject* found = trace.type_lookup(type, name))
    return bind(trace, found, trace.type_attribute(type, name), nullptr, type);
  if (on_meta) return bind(trace, on_meta, trace.type_attribute(meta, name), cls, meta);
  if (PyObject* hook = trace.type_lookup(meta, k_getattr); hook && PyFunction_Check(hook))
    return call(trace, trace.type_attribute(meta, k_getattr), {cls, trace.constant(name)});
  return nullptr;
}

Value* or_none(Trace& trace, Value* value) { return value ? value : trace.none(); }

Value* function_attribute(Trace& trace, Function* function, PyObject* name) {
  for (Attribute& attribute : function->attributes)
    if (attribute.name == name) return attribute.value;
  trace.describe(function);
  if (name == k_name) return trace.constant(function->name);
  if (name == k_qualname) return trace.constant(function->qualname);
  if (name == k_code) return trace.constant(reinterpret_cast<PyObject*>(function->code));
  if (name == k_defaults) return or_none(trace, function->defaults);
  if (name == k_kwdefaults) return or_none(trace, function->kwdefaults);
  if (name == k_class) return class_value(trace, &PyFunction_Type);
  if (name == k_globals) cannot(Reason::AttributeUnknown, "the globals of a function as a dict");
  if (name == k_closure) return function->closure.empty() ? trace.none() : trace.tuple(function->closure);
  if (name == k_annotations && !function->existing()) return or_none(trace, function->annotations);
  if (function->existing()) {
    if (name == k_module || name == k_doc || name == k_annotations) {
      Owned<> real = take(PyObject_GetAttr(function->object, name));
      if (source::is_constant(real.get())) return trace.constant(real);
      cannot(Reason::AttributeUnknown, "a function's " + text_of(name));
    }
    PyObject* found = nullptr;
    const source::Source* source = trace.pool->child(function->source, SK::Attr, name);
    cpython::instance_attribute(function->object, name, &found);
    if (found) return trace.wrap(found, source);
    if (name != k_dict && name != k_get && name != k_call) trace.guard_absent(source);
  } else if (name == k_module) {
    Value* module = trace.global(static_cast<Namespace*>(function->globals), k_name);
    return or_none(trace, module);
  } else if (name == k_doc) {
    PyObject* consts = function->code->co_consts;
    PyObject* doc = PyTuple_GET_SIZE(consts) > 0 ? PyTuple_GET_ITEM(consts, 0) : Py_None;
    return trace.constant(PyUnicode_Check(doc) ? doc : Py_None);
  }
  if (name == k_dict) {
    Dict* dict = trace.dict();
    for (Attribute& attribute : function->attributes)
      dict->entries.set(trace.constant(attribute.name), attribute.value);
    if (function->existing()) {
      Owned<> real = take(PyObject_GetAttr(function->object, k_dict));
      if (PyDict_GET_SIZE(real.get())) cannot(Reason::AttributeUnknown, "the __dict__ of a function");
    }
    return dict;
  }
  PyObject* found = cpython::type_lookup(&PyFunction_Type, name);
  return found && !is_data_descriptor(found) ? bind(trace, found, trace.pinned(found), function, &PyFunction_Type)
                                             : nullptr;
}

Value* method_attribute(Trace& trace, Method* method, PyObject* name) {
  if (name == k_func) return method->function;
  if (name == k_self) return method->self;
  if (name == k_class) return class_value(trace, &PyMethod_Type);
  PyObject* found = cpython::type_lookup(&PyMethod_Type, name);
  if (found && Py_IS_TYPE(found, &PyMethodDescr_Type))
    return bind(trace, found, trace.pinned(found), method, &PyMethod_Type);
  return find_attribute(trace, method->function, name);
}

/// super().name: the MRO of start_type after `type`.
Value* super_attribute(Trace& trace, Super* super, PyObject* name) {
  PyObject* mro = super->start_type->tp_mro;
  Py_ssize_t i = 0, n = PyTuple_GET_SIZE(mro);
  while (i < n && PyTuple_GET_ITEM(mro, i) != reinterpret_cast<PyObject*>(super->type)) ++i;
  for (++i; i < n; ++i) {
    auto* type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    trace.type_lookup(type, name);  // guards that the class goes on having or lacking the name
    PyObject* found = PyDict_GetItem(type->tp_dict, name);
    if (!found) continue;
    Value* self = super->self;
    bool through_class = trace.see(self)->kind == Kind::Class &&
                         reinterpret_cast<PyObject*>(super->start_type) == trace.see(self)->object;
    if (auto* object = as<Object>(trace.see(self));
        object && (is_data_descriptor(found) && !Py_IS_TYPE(found, &PyProperty_Type)) && Py_TYPE(found)->tp_descr_get &&
        Py_IS_TYPE(found, &PyGetSetDescr_Type))
      return c_descriptor(trace, object, found, name);
    Value* written = trace.written_class_attribute(type, name);
    return bind(trace, found, written ? written : trace.pinned(found), through_class ? nullptr : self,
                super->start_type);
  }
  return name == k_class ? class_value(trace, &PySuper_Type) : nullptr;
}

Value* tuple_field(Tuple* tuple, PyObject* found, PyObject* name) {
  static PyTypeObject* getter = [] {
    Owned<> module = take(PyImport_ImportModule("_collections"));
    return reinterpret_cast<PyTypeObject*>(take(PyObject_GetAttrString(module.get(), "_tuplegetter")).release());
  }();
  if (Py_IS_TYPE(found, getter)) {
    Owned<> reduced = take(PyObject_CallMethod(found, "__reduce__", nullptr));
    return tuple->items.at(PyLong_AsSsize_t(PyTuple_GET_ITEM(PyTuple_GET_ITEM(reduced.get(), 1), 0)));
  }
  if (!Py_IS_TYPE(found, &PyMemberDescr_Type)) return nullptr;
  PyObject* fields = cpython::type_lookup(tuple->type, k_match_args);
  for (Py_ssize_t i = 0; fields && i < PyTuple_GET_SIZE(fields); ++i)
    if (PyUnicode_Compare(PyTuple_GET_ITEM(fields, i), name) == 0) return tuple->items.at(i);
  return nullptr;
}

Value* partial_attribute(Trace& trace, Partial* partial, PyObject* name) {
  std::string text = text_of(name);
  if (text == "func") return partial->function;
  if (text == "args") return trace.tuple(partial->args);
  if (text == "keywords") {
    Dict* keywords = trace.dict();
    for (Attribute& keyword : partial->keywords) keywords->entries.set(trace.constant(keyword.name), keyword.value);
    return keywords;
  }
  if (name == k_dict) cannot(Reason::AttributeUnknown, "the __dict__ of a partial");
  for (Attribute& attribute : partial->attributes)
    if (attribute.name == name) return attribute.value;
  if (!partial->existing()) return nullptr;
  PyObject* found = nullptr;
  cpython::instance_attribute(partial->object, name, &found);
  const source::Source* source = trace.pool->child(partial->source, SK::Attr, name);
  if (!found) trace.guard_absent(source);
  return found ? trace.wrap(found, source) : nullptr;
}

Value* slice_or_partial(Trace& trace, Value* value, PyObject* name) {
  if (auto* partial = as<Partial>(value)) return partial_attribute(trace, partial, name);
  auto* slice = as<Slice>(value);
  if (!slice) return nullptr;
  std::string text = text_of(name);
  return text == "start" ? slice->start : text == "stop" ? slice->stop : text == "step" ? slice->step : nullptr;
}

/// Values of types in C: their methods, and fields that are read without a call.
Value* builtin_attribute(Trace& trace, Value* value, PyObject* name) {
  if (name == k_class) return class_value(trace, type_of(value));
  if (Value* found = slice_or_partial(trace, value, name)) return found;
  PyTypeObject* type = type_of(value);
  PyObject* found = trace.type_lookup(type, name);
  if (!found) return nullptr;
  if (auto* tuple = as<Tuple>(value))
    if (Value* field = tuple_field(tuple, found, name)) return field;
  if (value->kind == Kind::Constant && is_data_descriptor(found)) {
    Owned<> real = take(PyObject_GetAttr(value->object, name));
    return trace.adopt(real);
  }
  if (auto* deque = as<Deque>(value); deque && text_of(name) == "maxlen")
    return deque->maxlen < 0 ? trace.none() : trace.integer(deque->maxlen);
  if (auto* dict = as<Dict>(value); dict && text_of(name) == "default_factory") return or_none(trace, dict->factory);
  if (value->kind == Kind::Builtin || value->kind == Kind::BuiltinMethod) {
    if (name == k_self && value->kind == Kind::BuiltinMethod) return static_cast<BuiltinMethod*>(value)->self;
    Owned<> real = Owned<>::steal(PyObject_GetAttr(value->object, name));
    if (!real) {
      PyErr_Clear();
      return nullptr;
    }
    if (source::is_constant(real.get())) return trace.constant(real);
    cannot(Reason::AttributeUnknown, "an attribute of a C function: " + text_of(name));
  }
  if (is_data_descriptor(found) && !Py_IS_TYPE(found, &PyProperty_Type))
    cannot(Reason::AttributeUnknown, std::string(type->tp_name) + "." + text_of(name));
  return bind(trace, found, trace.pinned(found), value, type);
}

}  // namespace

void set_tensor_attributes(TensorAttributes attributes) { tensor_attributes = attributes; }

Value* bind(Trace& trace, PyObject* found, Value* as_value, Value* object, PyTypeObject* type) {
  PyTypeObject* kind = Py_TYPE(found);
  if (kind == &PyFunction_Type) {
    if (!object) return as_value;
    auto* method = trace.make<Method>();
    method->function = as_value;
    method->self = object;
    return method;
  }
  if (kind == &PyMethodDescr_Type || kind == &PyWrapperDescr_Type || kind == &PyClassMethodDescr_Type) {
    if (!object && kind != &PyClassMethodDescr_Type) return as_value;
    auto* method = trace.make<BuiltinMethod>(nullptr, found);
    method->self = kind == &PyClassMethodDescr_Type ? class_value(trace, type) : object;
    return method;
  }
  if (kind == &PyClassMethod_Type || kind == &PyStaticMethod_Type) {
    Owned<> function = take(PyObject_GetAttr(found, k_func));
    Value* inner = trace.pinned(trace.keep(function));
    if (kind == &PyStaticMethod_Type) return inner;
    return bind(trace, function.get(), inner,
                object && trace.see(object)->kind == Kind::Class && !PyType_IsSubtype(type, &PyType_Type)
                    ? object
                    : class_value(trace, type),
                type);
  }
  if (kind == &PyProperty_Type) {
    if (!object) return as_value;
    Value* getter = property_part(trace, found, "fget");
    if (!getter) raise(trace, PyExc_AttributeError, "property has no getter");
    return call(trace, getter, {object});
  }
  if (!kind->tp_descr_get || PyType_Check(found)) return as_value;
  PyObject* get = trace.type_lookup(kind, k_get);
  if (get && PyFunction_Check(get))
    return call(trace, trace.type_attribute(kind, k_get),
                {as_value, object ? object : trace.none(), class_value(trace, type)});
  if (PyCFunction_Check(found)) return as_value;
  if (Model model = get ? find_model(get) : nullptr) {
    Value* values[] = {as_value, object ? object : trace.none(), class_value(trace, type)};
    return model(trace, Args{values, 3, nullptr, 0});
  }
  cannot(Reason::AttributeUnknown, std::string("a descriptor of type ") + kind->tp_name);
}

Value* generic_get_attribute(Trace& trace, Value* value, PyObject* name) {
  value = trace.see(value);
  auto* object = as<Object>(value);
  if (!object) return find_attribute(trace, value, name);
  PyObject* found = trace.type_lookup(object->type, name);
  if (found && is_data_descriptor(found)) {
    if (Py_IS_TYPE(found, &PyMemberDescr_Type) || Py_IS_TYPE(found, &PyGetSetDescr_Type))
      return c_descriptor(trace, object, found, name);
    return bind(trace, found, trace.type_attribute(object->type, name), object, object->type);
  }
  if (has_instance_dict(object->type))
    if (Value* own = trace.own_attribute(object, name)) return own;
  if (!found) return trace.written_class_attribute(object->type, name);
  return bind(trace, found, trace.type_attribute(object->type, name), object, object->type);
}

namespace {

/// Null, or the AttributeError of a user's hook, if there is none.
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
      return tensor_attributes.get(trace, static_cast<Tensor*>(value), name);
    case Kind::Namespace:
      cannot(Reason::AttributeUnknown, "globals as a dict");
    default:
      return builtin_attribute(trace, value, name);
  }
}

}  // namespace

Value* find_attribute(Trace& trace, Value* value, PyObject* name) {
  try {
    return attribute_of(trace, value, name);
  } catch (const UserError& error) {
    if (!matches(trace, error.exception, trace.pinned(PyExc_AttributeError))) throw;
    return nullptr;
  }
}

Value* get_attribute(Trace& trace, Value* value, PyObject* name) {
  if (Value* found = attribute_of(trace, value, name)) return found;
  value = trace.see(value);
  std::string attribute = text_of(name);
  if (value->kind == Kind::Class)
    raise(trace, PyExc_AttributeError,
          std::string("type object '") + reinterpret_cast<PyTypeObject*>(value->object)->tp_name +
              "' has no attribute '" + attribute + "'");
  if (value->kind == Kind::Module)
    raise(trace, PyExc_AttributeError,
          std::string("module '") + PyModule_GetName(value->object) + "' has no attribute '" + attribute + "'");
  raise(trace, PyExc_AttributeError,
        std::string("'") + type_of(value)->tp_name + "' object has no attribute '" + attribute + "'");
}

Value* special_method(Trace& trace, Value* object, PyObject* name) {
  object = trace.see(object);
  PyTypeObject* type = type_of(object);
  PyObject* found = trace.type_lookup(type, name);
  return found ? bind(trace, found, trace.type_attribute(type, name), object, type) : nullptr;
}

namespace {

void store_in_module(Trace& trace, Module* module, PyObject* name, Value* value) {
  trace.store_global(static_cast<Namespace*>(module->names), name, value);
}

/// Plain data over plain data: anything with descriptor behaviour on either side ends the segment.
void store_in_class(Trace& trace, Class* cls, PyObject* name, Value* value) {
  PyTypeObject *type = cls->type(), *meta = Py_TYPE(type);
  PyObject* before = trace.type_lookup(type, name);
  bool own_setattr = trace.type_lookup(meta, k_setattr) != cpython::type_lookup(&PyType_Type, k_setattr);
  Value* seen = value ? trace.see(value) : nullptr;
  bool plain = seen && (seen->kind == Kind::Constant || seen->kind == Kind::Tensor || seen->kind == Kind::List ||
                        seen->kind == Kind::Dict || seen->kind == Kind::Tuple || seen->kind == Kind::Set);
  bool dunder = text_of(name).starts_with("__");
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || own_setattr || !plain || dunder ||
      (before && (Py_TYPE(before)->tp_descr_get || is_data_descriptor(before))))
    cannot(Reason::MutationUnsupported, std::string("attribute ") + text_of(name) + " of class " + type->tp_name);
  trace.store_class_attribute(cls, name, value);
}

void store_in_function(Trace& trace, Function* function, PyObject* name, Value* value) {
  bool field = cpython::type_lookup(&PyFunction_Type, name) != nullptr;
  if (field && function->existing()) cannot(Reason::MutationUnsupported, "a function's " + text_of(name));
  PyObject* text = field ? trace.constant_of(value) : nullptr;
  if (name == k_name && text)
    function->name = text;
  else if (name == k_qualname && text)
    function->qualname = text;
  else if (name == k_defaults)
    function->defaults = trace.see(value) == trace.none() ? nullptr : value;
  else if (name == k_kwdefaults)
    function->kwdefaults = trace.see(value) == trace.none() ? nullptr : value;
  else if (name == k_annotations)
    function->annotations = value;
  else if (field && name != k_doc && name != k_module)
    cannot(Reason::MutationUnsupported, "a function's " + text_of(name));
  if (function->existing()) trace.effects.add(effects::Kind::StoreFunctionAttr, function, name, trace.graph.length());
  for (Attribute& attribute : function->attributes)
    if (attribute.name == name) {
      attribute.value = value;
      return;
    }
  function->attributes.push_back({name, value});
}

void store_in_partial(Partial* partial, PyObject* name, Value* value) {
  bool field = cpython::type_lookup(type_of(partial), name) != nullptr;
  if (partial->existing() || field || !value)
    cannot(Reason::MutationUnsupported, "the attribute " + text_of(name) + " of a partial");
  for (Attribute& attribute : partial->attributes)
    if (attribute.name == name) return void(attribute.value = value);
  partial->attributes.push_back({name, value});
}

void set_on_object(Trace& trace, Object* object, PyObject* name, Value* value) {
  static PyObject* object_setattr = cpython::type_lookup(&PyBaseObject_Type, k_setattr);
  static PyObject* object_delattr = cpython::type_lookup(&PyBaseObject_Type, k_delattr);
  PyObject* hook_name = value ? k_setattr : k_delattr;
  PyObject* hook = trace.type_lookup(object->type, hook_name);
  bool generic =
      object->type->tp_setattro == PyObject_GenericSetAttr || hook == (value ? object_setattr : object_delattr);
  if (generic) return generic_set_attribute(trace, object, name, value);
  if (!hook || !PyFunction_Check(hook))
    cannot(Reason::MutationUnsupported, std::string("an attribute of a ") + object->type->tp_name);
  Value* method = trace.type_attribute(object->type, hook_name);
  if (value)
    call(trace, method, {object, trace.constant(name), value});
  else
    call(trace, method, {object, trace.constant(name)});
}

[[noreturn]] void no_attribute(Trace& trace, Object* object, PyObject* name) {
  raise(trace, PyExc_AttributeError,
        std::string("'") + object->type->tp_name + "' object has no attribute '" + text_of(name) + "'");
}

/// True if a data descriptor on the class took the write.
bool descriptor_took(Trace& trace, Object* object, PyObject* found, PyObject* name, Value* value) {
  if (!found || !is_data_descriptor(found)) return false;
  if (Py_IS_TYPE(found, &PyMemberDescr_Type)) {
    if (cpython::slot_offset(found, object->type) < 0) cannot(Reason::MutationUnsupported, "a member of a type in C");
    if (!value && !trace.slot_attribute(object, name)) raise(trace, PyExc_AttributeError, text_of(name));
    trace.store_own_attribute(object, name, value);
    return true;
  }
  if (Py_IS_TYPE(found, &PyGetSetDescr_Type)) {
    bool exception = PyType_IsSubtype(object->type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)) &&
                     !object->existing() && value;
    if (exception && name == k_cause)
      object->cause = value, object->suppress_context = true;
    else if (exception && name == k_context)
      object->context = value;
    else if (exception && name == k_suppress_context)
      object->suppress_context = truth(trace, value);
    else if (exception && name == k_traceback &&
             (trace.see(value) == trace.none() || type_of(trace.see(value)) == &PyTraceBack_Type))
      return true;
    else if (exception && name == k_args)
      object->payload = trace.tuple(items_of(trace, value));
    else
      cannot(Reason::MutationUnsupported, "attribute " + text_of(name) + " of a " + object->type->tp_name);
    return true;
  }
  if (Py_IS_TYPE(found, &PyProperty_Type)) {
    Value* setter = property_part(trace, found, value ? "fset" : "fdel");
    if (!setter)
      raise(trace, PyExc_AttributeError,
            "property '" + text_of(name) + "' of '" + object->type->tp_name + "' object has no " +
                (value ? "setter" : "deleter"));
    if (value)
      call(trace, setter, {object, value});
    else
      call(trace, setter, {object});
    return true;
  }
  PyTypeObject* kind = Py_TYPE(found);
  PyObject* hook_name = value ? k_set : k_delete;
  PyObject* hook = trace.type_lookup(kind, hook_name);
  if (!hook || !PyFunction_Check(hook))
    cannot(Reason::MutationUnsupported, std::string("a descriptor of type ") + kind->tp_name);
  Value* as_value = trace.type_attribute(object->type, name);
  if (value)
    call(trace, trace.type_attribute(kind, hook_name), {as_value, object, value});
  else
    call(trace, trace.type_attribute(kind, hook_name), {as_value, object});
  return true;
}

void write(Trace& trace, Value* target, PyObject* name, Value* value) {
  target = trace.see(target);
  switch (target->kind) {
    case Kind::Object:
      return set_on_object(trace, static_cast<Object*>(target), name, value);
    case Kind::Module:
      return store_in_module(trace, static_cast<Module*>(target), name, value);
    case Kind::Function:
      if (!value) cannot(Reason::MutationUnsupported, "deleting a function's attribute");
      return store_in_function(trace, static_cast<Function*>(target), name, value);
    case Kind::Tensor:
      return tensor_attributes.set(trace, static_cast<Tensor*>(target), name, value);
    case Kind::Partial:
      return store_in_partial(static_cast<Partial*>(target), name, value);
    default:
      break;
  }
  if (target->kind == Kind::Class) return store_in_class(trace, static_cast<Class*>(target), name, value);
  std::string attribute = text_of(name);
  if (trace.type_lookup(type_of(target), name))
    raise(trace, PyExc_AttributeError,
          std::string("'") + type_of(target)->tp_name + "' object attribute '" + attribute + "' is read-only");
  raise(trace, PyExc_AttributeError,
        std::string("'") + type_of(target)->tp_name + "' object has no attribute '" + attribute + "'");
}

}  // namespace

void generic_set_attribute(Trace& trace, Value* target, PyObject* name, Value* value) {
  auto* object = trace.see_as<Object>(target);
  if (!object) return write(trace, target, name, value);
  PyObject* found = trace.type_lookup(object->type, name);
  if (descriptor_took(trace, object, found, name, value)) return;
  if (!has_instance_dict(object->type)) {
    if (found)
      raise(trace, PyExc_AttributeError,
            std::string("'") + object->type->tp_name + "' object attribute '" + text_of(name) + "' is read-only");
    no_attribute(trace, object, name);
  }
  if (!value && !trace.own_attribute(object, name)) no_attribute(trace, object, name);
  trace.store_own_attribute(object, name, value);
}

void set_attribute(Trace& trace, Value* object, PyObject* name, Value* value) { write(trace, object, name, value); }
void delete_attribute(Trace& trace, Value* object, PyObject* name) { write(trace, object, name, nullptr); }

}  // namespace gramme::protocol
