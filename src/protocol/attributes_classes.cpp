// Attributes of classes, and attribute access through super().
#include "base/type_dict.h"
#include "cpython/features.h"
#include "cpython/objects.h"
#include "protocol/attributes.h"
#include "protocol/names.h"
#include "source/constant.h"

namespace gramme::protocol {

using namespace value;
using namespace names;

namespace {

Value* mro_value(Trace& trace, PyObject* tuple) {
  std::vector<Value*> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) items.push_back(trace.pinned(PyTuple_GET_ITEM(tuple, i)));
  return trace.tuple(std::move(items));
}

/// Guards a class's name, which may be assigned.
void guard_text(Trace& trace, PyTypeObject* type, PyObject* name) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || trace.is_made(type)) return;
  const source::Source* cls = trace.pool->pinned(reinterpret_cast<PyObject*>(type));
  if (name == k_name || name == k_qualname)
    return trace.classes.guard_name(reinterpret_cast<PyObject*>(type), cls, name == k_name ? 0 : 1);
  const source::Source* source = trace.pool->child(cls, source::Kind::TypeAttr, name);
  PyObject* found = cpython::type_lookup(type, name);
  if (!found) return trace.facts.add_absent(source);
  auto kind = source::is_constant(found) ? guards::Kind::Constant : guards::Kind::Identity;
  trace.facts.add({source, kind, share(found)});
}

/// Attributes defined by `type` itself (names, bases); null for others.
Value* type_getset(Trace& trace, PyTypeObject* type, PyObject* name) {
  if (name == k_mro || name == k_bases) trace.classes.guard_mro(type);
  if (name == k_mro) return mro_value(trace, type->tp_mro);
  if (name == k_bases) return mro_value(trace, type->tp_bases);
  if (name == k_class) return class_value(trace, Py_TYPE(type));
  bool textual = name == k_name || name == k_qualname || name == k_module || name == k_doc;
  if (!textual) return nullptr;
  guard_text(trace, type, name);
  Owned<> text = take(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name));
  return source::is_constant(text.get()) ? trace.constant(text) : nullptr;
}

Value* class_proxy(Trace& trace, Class* cls) {
  auto* proxy = trace.make<Object>();
  proxy->type = &PyDictProxy_Type;
  proxy->payload = trace.classes.names_in(cls);
  return proxy;
}

/// The key under which an existing class caches its annotations. Ends the segment if Python code would compute them
/// now.
PyObject* name_of_annotations(Trace& trace, PyTypeObject* type) {
  if (!GRAMME_PYTHON_ANNOTATE || trace.classes.own_entry(type, k_annotations).raw) return k_annotations;
  trace.facts.add_absent(
      trace.pool->child(trace.pool->pinned(reinterpret_cast<PyObject*>(type)), source::Kind::Attr, k_annotations));
  if (trace.classes.own_entry(type, k_annotations_cache).raw) return k_annotations_cache;
  if (take(PyType_Type.tp_getattro(reinterpret_cast<PyObject*>(type), k_annotate)).get() != Py_None)
    cannot(Reason::AttributeUnknown, "annotations that are made when they are asked for");
  return k_annotations_cache;
}

/// type.__annotations__; reading it creates an empty dict in an existing class that has none.
Value* class_annotations(Trace& trace, PyTypeObject* type) {
  if (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE || trace.is_made(type))
    cannot(Reason::AttributeUnknown, std::string(type->tp_name) + ".__annotations__");
  PyObject* name = name_of_annotations(trace, type);
  if (!Owned<>::steal(PyType_Type.tp_getattro(reinterpret_cast<PyObject*>(type), k_annotations))) {
    PyErr_Clear();
    cannot(Reason::AttributeUnknown, std::string(type->tp_name) + ".__annotations__");
  }
  return trace.type_attribute(type, name);
}

}  // namespace

Value* class_attribute(Trace& trace, Class* cls, PyObject* name) {
  PyTypeObject *type = cls->type(), *meta = Py_TYPE(type);
  if (Value* own = type_getset(trace, type, name)) return own;
  PyObject* on_meta = trace.type_lookup(meta, name);
  if (on_meta && is_data_descriptor(trace, on_meta)) {
    if (name == k_dict && on_meta == PyDict_GetItem(type_dict(&PyType_Type), k_dict)) return class_proxy(trace, cls);
    if (name == k_annotations && on_meta == PyDict_GetItem(type_dict(&PyType_Type), k_annotations)) {
      if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return nullptr;
      return class_annotations(trace, type);
    }
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

/// super().name: searches the MRO of start_type after `type`.
Value* super_attribute(Trace& trace, Super* super, PyObject* name) {
  trace.classes.guard_mro(super->start_type);
  PyObject* mro = super->start_type->tp_mro;
  Py_ssize_t i = 0, n = PyTuple_GET_SIZE(mro);
  while (i < n && PyTuple_GET_ITEM(mro, i) != reinterpret_cast<PyObject*>(super->type)) ++i;
  for (++i; i < n; ++i) {
    auto* type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    auto [found, value] = trace.classes.own_entry(type, name);
    if (!found) {
      bool fixed = !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || trace.is_made(type);
      const source::Source* cls = trace.pool->pinned(reinterpret_cast<PyObject*>(type));
      if (!fixed && !PyDict_GetItem(type_dict(type), name))  // unless the program deleted it
        trace.facts.add_absent(trace.pool->child(cls, source::Kind::Attr, name));
      continue;
    }
    value = trace.type_attribute(type, name);
    Value* self = super->self;
    bool through_class = trace.see(self)->kind == Kind::Class &&
                         reinterpret_cast<PyObject*>(super->start_type) == trace.see(self)->object;
    auto* object = as<Object>(trace.see(self));
    if (object && Py_IS_TYPE(found, &PyGetSetDescr_Type)) return c_descriptor(trace, object, found, name);
    return bind(trace, found, value, through_class ? nullptr : self, super->start_type);
  }
  if (name == k_class) return class_value(trace, &PySuper_Type);
  if (trace.type_lookup(&PySuper_Type, name)) cannot(Reason::AttributeUnknown, "super()." + text_of(name));
  return nullptr;
}

void generic_set_class_attribute(Trace& trace, Class* cls, PyObject* name, Value* value) {
  PyTypeObject *type = cls->type(), *meta = Py_TYPE(type);
  std::string text = text_of(name);
  PyObject* on_meta = trace.type_lookup(meta, name);
  const bool fixed = !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE;
  if (fixed || text.starts_with("__"))
    cannot(Reason::MutationUnsupported, "attribute " + text + " of class " + type->tp_name);
  if (descriptor_took(trace, cls, meta, on_meta, name, value)) return;
  trace.type_lookup(type, name);  // guards the former content
  if (!value && !trace.classes.own_entry(type, name).raw)
    raise(trace, PyExc_AttributeError,
          "type object '" + std::string(type->tp_name) + "' has no attribute '" + text + "'");
  PyObject* raw = value ? trace.keep(stand_in(trace, trace.see(value))) : nullptr;
  trace.store_class_attribute(cls, name, value, raw);
}

void store_in_class(Trace& trace, Class* cls, PyObject* name, Value* value) {
  PyTypeObject* meta = Py_TYPE(cls->type());
  PyObject* hook_name = value ? k_setattr : k_delattr;
  PyObject* hook = trace.type_lookup(meta, hook_name);
  if (hook == cpython::type_lookup(&PyType_Type, hook_name))
    return generic_set_class_attribute(trace, cls, name, value);
  if (!hook || !PyFunction_Check(hook))
    cannot(Reason::MutationUnsupported, "an attribute of class " + std::string(cls->type()->tp_name));
  Value* method = trace.type_attribute(meta, hook_name);
  if (value)
    call(trace, method, {cls, trace.constant(name), value});
  else
    call(trace, method, {cls, trace.constant(name)});
}

}  // namespace gramme::protocol
