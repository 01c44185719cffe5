// The state of existing and new objects as the program sees it: own attributes, globals, cells, parts of functions.
#include "cpython/objects.h"
#include "trace/capture.h"
#include "trace/dying.h"
#include "trace/read_later.h"
#include "trace/tensor_attributes.h"

namespace gramme::trace {

using namespace value;
using SK = source::Kind;

namespace {
[[noreturn]] void cannot_ask_late(const Object* object) {
  cannot(Reason::LateEffect, std::string("an attribute of a ") + object->type->tp_name);
}

Attributes& own_attributes(Value* object) {
  if (auto* function = as<Function>(object)) return function->attributes;
  if (auto* tensor = as<Tensor>(object)) return tensor->attributes;
  if (auto* dict = as<Dict>(object)) return dict->attributes;
  if (auto* partial = as<Partial>(object)) return partial->attributes;
  return static_cast<Object*>(object)->attributes;
}

}  // namespace

/// The lazy value of a lookup's result. Its presence is guarded even if nobody looks into it.
Value* Capture::found_at(PyObject* object, const Source* source) {
  facts.add({source, guards::Kind::Present, {}});
  return wrap(object, source);
}

// ---- attributes

/// Ends the segment if the object is the result of a call in replay, whose attributes are unknown; a null name means
/// all.
void Capture::refuse_late(Value* object, PyObject* name) {
  auto* instance = as<Object>(object);
  if (instance && instance->made_by >= 0 && (!name || !type_lookup(instance->type, name))) cannot_ask_late(instance);
}

Value* Capture::own_attribute(Value* object, PyObject* name) {
  if (auto* tensor = as<Tensor>(object)) return instance_attribute(*this, tensor, name);
  Attributes& attributes = own_attributes(object);
  if (Attribute* known = find(attributes, name)) {
    confinement.reads(object, known->value, object, name);
    return known->value;
  }
  refuse_late(object, name);
  if (!object->existing()) return nullptr;
  PyObject* found = nullptr;
  switch (cpython::instance_attribute(object->object, name, &found)) {
    case cpython::Lookup::NeedsPython:
      cannot(Reason::AttributeUnknown, "an instance dict with keys of a user's class");
    case cpython::Lookup::Absent:
      facts.add_absent(pool->child(object->source, SK::Attr, name));
      break;
    case cpython::Lookup::Found:
      break;
  }
  Value* result = found ? found_at(found, pool->child(object->source, SK::Attr, name)) : nullptr;
  attributes.push_back({name, result});
  confinement.reads(object, result, object, name);
  return result;
}

void Capture::store_own_attribute(Value* object, PyObject* name, Value* value) {
  auto* tensor = as<Tensor>(object);
  if (tensor) note_dict(objects, tensor);
  auto* instance = as<Object>(object);
  if (instance && !instance->type->tp_dictoffset && !cpython::has_managed_dict(instance->type))
    cannot(Reason::MutationUnsupported,
           std::string("an attribute of a ") + instance->type->tp_name + " without a dict");
  if (tensor)
    confinement.changes(tensor);
  else
    confinement.changes(object, name, [=, this] { return own_attribute(object, name); });
  Attributes& attributes = own_attributes(object);
  Attribute* known = find(attributes, name);
  const bool written = effects_.contains(effects::Kind::StoreAttr, object, name);
  bool deleted = known && !known->value && written;
  PyObject* old = nullptr;
  if (object->existing() && !written) cpython::instance_attribute(object->object, name, &old);
  refuse_death(*this, old);
  if (object->existing() && deleted && value)
    effects_.add_anew(effects::Kind::StoreAttr, object, name, moment());
  else if (object->existing())
    effects_.add(effects::Kind::StoreAttr, object, name, moment());
  if (!known) {
    attributes.push_back({name, value});
    return;
  }
  // Deleted and set again: moves to the end.
  const bool moved = known->value == nullptr && (!object->existing() || tensor);
  if (!moved) {
    known->value = value;
    return;
  }
  attributes.erase(attributes.begin() + (known - attributes.data()));
  attributes.push_back({name, value});
}

Value* Capture::slot_attribute(Object* object, PyObject* name) {
  if (Attribute* known = find(object->slots, name)) {
    confinement.reads(object, known->value);
    return known->value;
  }
  if (object->made_by >= 0) cannot_ask_late(object);
  if (!object->existing()) return nullptr;
  PyObject* descriptor = type_lookup(object->type, name);
  Py_ssize_t offset = descriptor ? cpython::slot_offset(descriptor, object->type) : -1;
  if (offset < 0) cannot(Reason::AttributeUnknown, "a member of a type in C");
  const Source* source = pool->child(object->source, SK::Slot, name);
  PyObject* found = *cpython::slot_address(object->object, offset);
  if (!found) facts.add_absent(source);
  Value* result = found ? found_at(found, source) : nullptr;
  object->slots.push_back({name, result});
  confinement.reads(object, result);
  return result;
}

/// A slot's old value dies, which must run no code; `__class__` is no slot, and the old class lives on.
void Capture::store_slot_attribute(Object* object, PyObject* name, Value* value) {
  static PyObject* const class_name = intern("__class__");
  confinement.changes(object);
  if (object->existing() && name != class_name && !effects_.contains(effects::Kind::StoreSlot, object, name))
    if (Value* old = slot_attribute(object, name)) refuse_death(*this, old->object);
  if (object->existing()) effects_.add(effects::Kind::StoreSlot, object, name, moment());
  if (Attribute* known = find(object->slots, name))
    known->value = value;
  else
    object->slots.push_back({name, value});
}

Attributes Capture::all_attributes(Value* object) {
  refuse_late(object, nullptr);
  auto* tensor = as<Tensor>(object);
  if (tensor) refuse_unknown_dict(tensor);
  const auto is_in_dict = [&](PyObject* name) { return !tensor || !is_outside_dict(classes, tensor, name); };
  if (!object->existing()) {
    Attributes live;
    for (Attribute& attribute : own_attributes(object))
      if (attribute.value && is_in_dict(attribute.name)) live.push_back(attribute);
    return live;
  }
  if (tensor) note_dict(objects, tensor);
  PyObject** address = cpython::instance_dict_address(object->object);
  if (!address) return {};
  Owned<> dict = take(PyObject_GenericGetDict(object->object, nullptr));
  const Source* source = pool->child(object->source, SK::InstanceDict);
  Owned<> keys = take(PySequence_Tuple(dict.get()));
  facts.add({source, guards::Kind::Keys, keys});
  Attributes live;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i) {
    PyObject* name = PyTuple_GET_ITEM(keys.get(), i);
    if (!PyUnicode_CheckExact(name)) cannot(Reason::AttributeUnknown, "an instance dict whose keys are not all str");
    Py_INCREF(name);  // counts by hand: InternInPlace replaces a reference
    PyUnicode_InternInPlace(&name);
    keep(Owned<>::steal(name));
    const effects::Effect* written = effects_.find(effects::Kind::StoreAttr, object, name);
    if (written && written->anew) continue;  // stored again, so it comes after the others
    if (Value* value = own_attribute(object, name)) live.push_back({name, value});
  }
  if (!object->written) return live;
  for (const effects::Effect& effect : effects_.entries()) {
    if (effect.kind != effects::Kind::StoreAttr || effect.target != object) continue;
    Attribute* written = find(own_attributes(object), effect.name);
    if (written->value && is_in_dict(effect.name) && !find(live, effect.name)) live.push_back(*written);
  }
  return live;
}

// ---- classes

void Capture::store_class_attribute(Class* cls, PyObject* name, Value* value, PyObject* raw) {
  confinement.changes(cls);
  const bool anew = classes.store(cls, name, value, raw);
  if (cls->existing() && anew)
    effects_.add_anew(effects::Kind::StoreClassAttr, cls, name, moment());
  else if (cls->existing())
    effects_.add(effects::Kind::StoreClassAttr, cls, name, moment());
}

// ---- globals

Value* Capture::global(Namespace* names, PyObject* name) {
  auto known = names->names.find(name);
  if (known != names->names.end()) {
    confinement.reads(nullptr, known->second.value, names, name);
    return known->second.value;
  }
  PyObject* found = nullptr;
  if (cpython::dict_lookup(names->object, name, &found) == cpython::Lookup::NeedsPython)
    cannot(Reason::AttributeUnknown, "globals with keys of a user's class");
  const Source* source = pool->child(names->source, SK::Value, name);
  if (!found) facts.add_absent(source);
  Value* result = found ? found_at(found, source) : nullptr;
  names->names[name] = {result, false};
  confinement.reads(nullptr, result, names, name);
  return result;
}

void Capture::store_global(Namespace* names, PyObject* name, Value* value) {
  confinement.changes(names, name, [=, this] { return global(names, name); });
  PyObject* old = nullptr;
  if (!effects_.contains(effects::Kind::StoreGlobal, names, name)) cpython::dict_lookup(names->object, name, &old);
  refuse_death(*this, old);
  effects_.add(effects::Kind::StoreGlobal, names, name, moment());
  names->names[name] = {value, true};
}

// ---- cells

Value* Capture::cell_content(Cell* cell, Namespace* reader) {
  if (cell->dict_of) cannot(Reason::AttributeUnknown, "the __dict__ of a class made in the capture");
  if (!cell->read) {
    cell->read = true;
    PyObject* content = PyCell_GET(cell->object);
    const Source* source = pool->child(cell->source, SK::Contents);
    if (!content) facts.add_absent(source);
    cell->content = content ? found_at(content, source) : nullptr;
  }
  if (confinement.any())
    confinement.reads(nullptr, cell->content, reader && is_of_library(reader) ? nullptr : cell, nullptr);
  return cell->content;
}

void Capture::store_cell(Cell* cell, Value* content) {
  if (cell->dict_of) cannot(Reason::MutationUnsupported, "a cell that holds the __dict__ of a class");
  confinement.changes(cell, nullptr, [=, this] { return cell_content(cell); });
  if (cell->existing() && !effects_.contains(effects::Kind::StoreCell, cell, nullptr))
    refuse_death(*this, PyCell_GET(cell->object));
  if (cell->existing()) effects_.add(effects::Kind::StoreCell, cell, nullptr, moment());
  cell->read = true;
  cell->content = content;
}

void Capture::store_dict(Cell* cell, Class* made) {
  store_cell(cell, nullptr);
  cell->dict_of = made;
  made->dict_cell = cell;
}

// ---- functions

void Capture::describe(Function* function) {
  if (function->described || !function->existing()) return;
  function->described = true;
  auto* real = cpython::as_function(function->object);
  const Source* source = function->source;
  function->code = cpython::code_of(real);
  facts.add({source, guards::Kind::Code, share(real->func_code)});
  function->name = real->func_name;
  function->qualname = real->func_qualname;
  function->globals = objects.namespace_of(real->func_globals, pool->child(source, SK::Globals));
  const Source* defaults = pool->child(source, SK::Defaults);
  const Source* kwdefaults = pool->child(source, SK::KwDefaults);
  if (real->func_defaults)
    function->defaults = wrap(real->func_defaults, defaults);
  else
    facts.add_absent(defaults);
  if (real->func_kwdefaults)
    function->kwdefaults = wrap(real->func_kwdefaults, kwdefaults);
  else
    facts.add_absent(kwdefaults);
  if (!real->func_closure) return;
  PyCodeObject* code = function->code;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(real->func_closure); ++i) {
    PyObject* cell = PyTuple_GET_ITEM(real->func_closure, i);
    PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, code->co_nlocalsplus - code->co_nfreevars + i);
    function->closure.push_back(see(wrap(cell, pool->closure(source, i, name))));
  }
}

}  // namespace gramme::trace
