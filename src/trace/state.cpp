// The state of existing and new objects as the program sees it: own attributes, globals, cells, dicts.
#include <algorithm>

#include "cpython/objects.h"
#include "source/constant.h"
#include "trace/sets.h"
#include "trace/trace.h"

namespace gramme::trace {

using namespace value;
using SK = source::Kind;

namespace {
[[noreturn]] void cannot_ask_late(const Object* object) {
  cannot(Reason::LateEffect, std::string("an attribute of a ") + object->type->tp_name);
}

Attributes& own_attributes(Value* object) {
  auto* function = as<Function>(object);
  return function ? function->attributes : static_cast<Object*>(object)->attributes;
}

/// A dict that a call in replay changes: the segment is captured again, with that call traced.
void look_into(const Dict* dict) {
  if (dict->hidden) throw NeedsConstant{dict->source->print()};
}
}  // namespace

/// What a look-up found. That there is something is a guard, also if nobody looks at what it is.
Value* Trace::found_at(PyObject* object, const Source* source) {
  guard({source, guards::Kind::Present, {}});
  return wrap(object, source);
}

// ---- attributes

/// An object that a call in replay returns: what it has is not known; null asks for all of it.
void Trace::refuse_late(Value* object, PyObject* name) {
  auto* instance = as<Object>(object);
  if (instance && instance->made_by >= 0 && (!name || !type_lookup(instance->type, name))) cannot_ask_late(instance);
}

Value* Trace::own_attribute(Value* object, PyObject* name) {
  Attributes& attributes = own_attributes(object);
  if (Attribute* known = find(attributes, name)) return known->value;
  refuse_late(object, name);
  if (!object->existing()) return nullptr;
  PyObject* found = nullptr;
  switch (cpython::instance_attribute(object->object, name, &found)) {
    case cpython::Lookup::NeedsPython:
      cannot(Reason::AttributeUnknown, "an instance dict with keys of a user's class");
    case cpython::Lookup::Absent:
      guard_absent(pool->child(object->source, SK::Attr, name));
      break;
    case cpython::Lookup::Found:
      break;
  }
  Value* result = found ? found_at(found, pool->child(object->source, SK::Attr, name)) : nullptr;
  attributes.push_back({name, result});
  return result;
}

void Trace::store_own_attribute(Value* object, PyObject* name, Value* value) {
  Attributes& attributes = own_attributes(object);
  Attribute* known = find(attributes, name);
  bool deleted = known && !known->value && effects.contains(effects::Kind::StoreAttr, object, name);
  if (object->existing() && deleted && value)
    effects.add_anew(effects::Kind::StoreAttr, object, name, graph.length());
  else if (object->existing())
    effects.add(effects::Kind::StoreAttr, object, name, graph.length());
  if (!known) {
    attributes.push_back({name, value});
    return;
  }
  bool moved = known->value == nullptr && !object->existing();  // deleted and set again: last in the dict's order
  if (!moved) {
    known->value = value;
    return;
  }
  attributes.erase(attributes.begin() + (known - attributes.data()));
  attributes.push_back({name, value});
}

Value* Trace::slot_attribute(Object* object, PyObject* name) {
  if (Attribute* known = find(object->slots, name)) return known->value;
  if (object->made_by >= 0) cannot_ask_late(object);
  if (!object->existing()) return nullptr;
  PyObject* descriptor = type_lookup(object->type, name);
  Py_ssize_t offset = descriptor ? cpython::slot_offset(descriptor, object->type) : -1;
  if (offset < 0) cannot(Reason::AttributeUnknown, "a member of a type in C");
  const Source* source = pool->child(object->source, SK::Slot, name);
  PyObject* found = *cpython::slot_address(object->object, offset);
  if (!found) guard_absent(source);
  Value* result = found ? found_at(found, source) : nullptr;
  object->slots.push_back({name, result});
  return result;
}

void Trace::store_slot_attribute(Object* object, PyObject* name, Value* value) {
  if (object->existing()) effects.add(effects::Kind::StoreSlot, object, name, graph.length());
  if (Attribute* known = find(object->slots, name))
    known->value = value;
  else
    object->slots.push_back({name, value});
}

Attributes Trace::all_attributes(Value* object) {
  refuse_late(object, nullptr);
  if (!object->existing()) {
    Attributes live;
    for (Attribute& attribute : own_attributes(object))
      if (attribute.value) live.push_back(attribute);
    return live;
  }
  PyObject** address = cpython::instance_dict_address(object->object);
  if (!address) return {};
  Owned<> dict = take(PyObject_GenericGetDict(object->object, nullptr));
  const Source* source = pool->child(object->source, SK::InstanceDict);
  Owned<> keys = take(PySequence_Tuple(dict.get()));
  guard({source, guards::Kind::Keys, keys});
  Attributes live;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i) {
    PyObject* name = PyTuple_GET_ITEM(keys.get(), i);
    if (!PyUnicode_CheckExact(name)) cannot(Reason::AttributeUnknown, "an instance dict with keys that are no text");
    Py_INCREF(name);  // counts by hand: InternInPlace takes a reference and gives one
    PyUnicode_InternInPlace(&name);
    keep(Owned<>::steal(name));
    const effects::Effect* written = effects.find(effects::Kind::StoreAttr, object, name);
    if (written && written->anew) continue;  // behind the others, where it was stored again
    if (Value* value = own_attribute(object, name)) live.push_back({name, value});
  }
  for (const effects::Effect& effect : effects.entries()) {
    if (effect.kind != effects::Kind::StoreAttr || effect.target != object) continue;
    Attribute* written = find(own_attributes(object), effect.name);
    if (written->value && !find(live, effect.name)) live.push_back(*written);
  }
  return live;
}

// ---- globals

Value* Trace::global(Namespace* names, PyObject* name) {
  auto known = names->names.find(name);
  if (known != names->names.end()) return known->second.value;
  PyObject* found = nullptr;
  if (cpython::dict_lookup(names->object, name, &found) == cpython::Lookup::NeedsPython)
    cannot(Reason::AttributeUnknown, "globals with keys of a user's class");
  const Source* source = pool->child(names->source, SK::Value, name);
  if (!found) guard_absent(source);
  Value* result = found ? found_at(found, source) : nullptr;
  names->names[name] = {result, false};
  return result;
}

void Trace::store_global(Namespace* names, PyObject* name, Value* value) {
  effects.add(effects::Kind::StoreGlobal, names, name, graph.length());
  names->names[name] = {value, true};
}

// ---- cells

Value* Trace::cell_content(Cell* cell) {
  if (cell->read) return cell->content;
  cell->read = true;
  PyObject* content = PyCell_GET(cell->object);
  const Source* source = pool->child(cell->source, SK::Contents);
  if (!content) guard_absent(source);
  cell->content = content ? found_at(content, source) : nullptr;
  return cell->content;
}

void Trace::store_cell(Cell* cell, Value* content) {
  if (cell->existing()) effects.add(effects::Kind::StoreCell, cell, nullptr, graph.length());
  cell->read = true;
  cell->content = content;
}

// ---- functions

void Trace::describe(Function* function) {
  if (function->described || !function->existing()) return;
  function->described = true;
  auto* real = cpython::as_function(function->object);
  const Source* source = function->source;
  function->code = cpython::code_of(real);
  guard({source, guards::Kind::Code, share(real->func_code)});
  function->name = real->func_name;
  function->qualname = real->func_qualname;
  function->globals = namespace_of(real->func_globals, pool->child(source, SK::Globals));
  const Source* defaults = pool->child(source, SK::Defaults);
  const Source* kwdefaults = pool->child(source, SK::KwDefaults);
  if (real->func_defaults)
    function->defaults = wrap(real->func_defaults, defaults);
  else
    guard_absent(defaults);
  if (real->func_kwdefaults)
    function->kwdefaults = wrap(real->func_kwdefaults, kwdefaults);
  else
    guard_absent(kwdefaults);
  if (!real->func_closure) return;
  PyCodeObject* code = function->code;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(real->func_closure); ++i) {
    PyObject* cell = PyTuple_GET_ITEM(real->func_closure, i);
    PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, code->co_nlocalsplus - code->co_nfreevars + i);
    function->closure.push_back(see(wrap(cell, pool->closure(source, i, name))));
  }
}

// ---- containers

void Trace::will_change(Value* container) {
  container = see(container);
  if (auto* dict = as<Dict>(container)) look_into(dict);
  if (!container->existing() || container->written) return;
  if (auto* list = as<List>(container)) originals_[list] = list->items;
  if (auto* deque = as<Deque>(container)) originals_[deque] = deque->items;
  if (auto* set = as<Set>(container)) guard_places(*this, set);
  effects.add(effects::Kind::Content, container, nullptr, graph.length());
}

const std::vector<Value*>* Trace::original_items(Value* container) const {
  auto found = originals_.find(container);
  return found == originals_.end() ? nullptr : &found->second;
}

Value* Trace::as_key(Value* key) {
  key = see(key);
  if (key->kind == Kind::Number) constant_of(key);  // specialises
  return key;
}

Value* Trace::dict_get(Dict* dict, Value* key) {
  look_into(dict);
  key = as_key(key);
  if (!hashable(key)) cannot(Reason::ArgumentKind, "a dict key with its own equality");
  if (Table::Entry* entry = dict->entries.find(key)) return entry->value;
  if (dict->loaded) return nullptr;
  if (key->kind != Kind::Constant || !cpython::is_plain_key(key->object)) {
    load(dict);
    Table::Entry* entry = dict->entries.find(key);
    return entry ? entry->value : nullptr;
  }
  for (Value* absent : dict->absent)
    if (equal_keys(absent, key)) return nullptr;
  PyObject* found = nullptr;
  if (cpython::dict_lookup(dict->object, key->object, &found) == cpython::Lookup::NeedsPython)
    cannot(Reason::ArgumentKind, "a dict with keys of a user's class");
  const Source* source = pool->child(dict->source, SK::Value, key->object);
  if (found) return dict->entries.set(key, found_at(found, source)).value;
  guard_absent(source);
  dict->absent.push_back(key);
  return nullptr;
}

void Trace::load_keys(Dict* dict, Table& into) {
  PyObject* real = dict->object;
  bool ordered = cpython::is_ordered_dict(real);
  Owned<> keys = take(PyTuple_New(PyDict_GET_SIZE(real)));
  for (Py_ssize_t i = 0; i < PyDict_GET_SIZE(real); ++i) {
    PyObject *key = nullptr, *item = nullptr;
    if (ordered)
      key = cpython::ordered_dict_key(real, i);
    else
      cpython::dict_entry(real, i, &key, &item);
    PyTuple_SET_ITEM(keys.get(), i, share(key).release());
    bool plain = cpython::is_plain_key(key);
    if (plain) {
      if (cpython::dict_lookup(real, key, &item) != cpython::Lookup::Found)
        cannot(Reason::ArgumentKind, "a dict with keys of a user's class");
    } else if (ordered) {
      cannot(Reason::ArgumentKind, "an OrderedDict with keys that are no constants");
    }
    Value* key_value = plain ? adopt(share(key)) : see(wrap(key, pool->child(dict->source, SK::KeyAt, i)));
    if (!hashable(key_value)) cannot(Reason::ArgumentKind, "a dict key with its own equality");
    const Source* source =
        plain ? pool->child(dict->source, SK::Value, key) : pool->child(dict->source, SK::ValueAt, i);
    into.set(key_value, wrap(item, source)).original = true;
  }
  guard({dict->source, guards::Kind::Keys, keys});
}

void Trace::load(Dict* dict) {
  look_into(dict);
  if (dict->loaded) return;
  Table known = std::move(dict->entries);
  dict->entries = Table();
  load_keys(dict, dict->entries);
  dict->loaded = true;
  known.each([&](Table::Entry& entry) {
    Table::Entry& now = dict->entries.set(entry.key, entry.value);
    now.changed = entry.changed;
  });
}

size_t Trace::dict_size(Dict* dict) {
  look_into(dict);
  if (!dict->loaded && dict->entries.size() == 0 && !dict->written) {
    guard_length(dict->source, PyDict_GET_SIZE(dict->object));
    return PyDict_GET_SIZE(dict->object);
  }
  load(dict);
  return dict->entries.size();
}

void Trace::dict_set(Dict* dict, Value* key, Value* value) {
  key = as_key(key);
  if (!hashable(key)) cannot(Reason::ArgumentKind, "a dict key with its own equality");
  if (!dict->loaded && key->kind != Kind::Constant) load(dict);
  will_change(dict);
  if (dict->existing() && !dict->loaded) dict_get(dict, key);  // guards whether it is there
  dict->entries.set(key, value).changed = true;
}

bool Trace::dict_erase(Dict* dict, Value* key) {
  key = see(key);
  if (!dict_get(dict, key)) return false;
  load(dict);
  will_change(dict);
  Table::Entry* entry = dict->entries.find(key);
  if (entry->original) dict->erased.push_back(entry->key);
  if (PyType_IsSubtype(dict->type, &PyODict_Type)) dict->rewritten = true;
  return dict->entries.erase(key);
}

}  // namespace gramme::trace
