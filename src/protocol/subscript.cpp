// Typing forms are immutable and made without effects, so they are subscripted for real.
#include "protocol/subscript.h"

#include <algorithm>
#include <iterator>

#include "protocol/special.h"

namespace gramme::protocol {

using namespace value;

namespace {

bool is_text(PyObject* object, const char* text) {
  return object && PyUnicode_Check(object) && PyUnicode_CompareWithASCIIString(object, text) == 0;
}

bool is_typing_form(PyObject* object) {
  static PyObject* const module_name = intern("__module__");
  PyTypeObject* type = Py_TYPE(object);
  std::string_view name = type->tp_name;
  if (name == "types.GenericAlias" || name == "types.UnionType" || name == "typing.Union") return true;
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && is_text(_PyType_Lookup(type, module_name), "typing");
}

/// The real object of a key made of types, typing forms and constants; else null. Typing forms are guarded by identity.
Owned<> typing_key(Trace& trace, Value* key) {
  key = trace.see(key);
  if (key->kind == Kind::Class || key->kind == Kind::Constant) return share(key->object);
  if (key->kind == Kind::Object && key->existing() && is_typing_form(key->object)) {
    trace.facts.add({key->source, guards::Kind::Identity, share(key->object)});
    return share(key->object);
  }
  auto* tuple = as<Tuple>(key);
  auto* list = as<List>(key);
  if (!tuple && !list) return {};
  const std::vector<Value*>& items = tuple ? tuple->items : list->items();
  Owned<> result = take(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) {
    Owned<> item = typing_key(trace, items[i]);
    if (!item) return {};
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  return tuple ? result : take(PySequence_List(result.get()));
}

bool holds_typing_forms(PyObject* object) {
  if (!PyTuple_CheckExact(object)) return is_typing_form(object);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    if (is_typing_form(PyTuple_GET_ITEM(object, i))) return true;
  return false;
}

/// The value of a form from typing's cache, which is the same object at each request.
Value* adopt_form(Trace& trace, PyObject* result) {
  if (!result || Py_REFCNT(result) == 1 || !holds_typing_forms(result)) return folded(trace, result);
  return trace.pinned(trace.keep(Owned<>::steal(result)));
}

/// A part of a form, which is the same object each time.
Value* part_of_form(Trace& trace, PyObject* form, PyObject* name) {
  Owned<> part = Owned<>::steal(PyObject_GetAttr(form, name));
  if (!part) raise_current(trace);
  return Py_REFCNT(part.get()) == 1 ? adopt_form(trace, part.release()) : trace.pinned(trace.keep(std::move(part)));
}

Value* subscript(Trace& trace, PyObject* object, Value* key) {
  Owned<> real = typing_key(trace, key);
  if (!real) cannot(Reason::ArgumentKind, std::string("a subscript of ") + Py_TYPE(object)->tp_name);
  return adopt_form(trace, PyObject_GetItem(object, real.get()));
}

/// True for a __class_getitem__ in C, and one that the module typing defines.
bool is_effect_free(PyObject* class_getitem) {
  if (Py_TYPE(class_getitem) == &PyClassMethodDescr_Type) return true;
  if (Py_TYPE(class_getitem) != &PyClassMethod_Type) return false;
  Owned<> function = take(PyObject_GetAttrString(class_getitem, "__func__"));
  if (!PyFunction_Check(function.get())) return true;
  return is_text(PyFunction_GetModule(function.get()), "typing");
}

}  // namespace

Value* class_item(Trace& trace, Class* cls, Value* key) {
  static PyObject* const name = intern("__class_getitem__");
  if (cls->type() == &PyType_Type) return subscript(trace, cls->object, key);
  PyObject* raw = trace.type_lookup(cls->type(), name);
  if (!raw || raw == Py_None)
    raise(trace, PyExc_TypeError, std::string("type '") + cls->type()->tp_name + "' is not subscriptable");
  if (is_effect_free(raw)) return subscript(trace, cls->object, key);
  return call(trace, get_attribute(trace, cls, name), {key});
}

Value* typing_item(Trace& trace, Value* object, Value* key) {
  if (object->kind != Kind::Object || !object->existing() || !is_typing_form(object->object)) return nullptr;
  trace.facts.add({object->source, guards::Kind::Identity, share(object->object)});
  return subscript(trace, object->object, key);
}

Value* typing_attribute(Trace& trace, PyObject* form, PyObject* name) {
  static const char* const kParts[] = {"__args__", "__origin__", "__parameters__", "_inst", "_name"};
  const bool part =
      std::any_of(std::begin(kParts), std::end(kParts), [&](const char* of) { return is_text(name, of); });
  return part && is_typing_form(form) ? part_of_form(trace, form, name) : nullptr;
}

Value* typing_attribute(Trace& trace, Object* object, PyObject* name) {
  if (!object->existing() || (object->type->tp_flags & Py_TPFLAGS_HEAPTYPE) || !is_typing_form(object->object))
    return nullptr;
  if (!is_text(name, "__args__") && !is_text(name, "__origin__") && !is_text(name, "__parameters__")) return nullptr;
  trace.facts.add({object->source, guards::Kind::Identity, share(object->object)});
  return part_of_form(trace, object->object, name);
}

}  // namespace gramme::protocol
