// The state of existing and new objects as the program sees it: own attributes, globals, cells, dicts.
#include <algorithm>

#include "cpython/objects.h"
#include "source/constant.h"
#include "trace/capture.h"
#include "trace/sets.h"

namespace gramme::trace {

using namespace value;
using SK = source::Kind;

namespace {
[[noreturn]] void cannot_ask_late(const Object* object) {
  cannot(Reason::LateEffect, std::string("an attribute of a ") + object->type->tp_name);
}

Attributes& own_attributes(Value* object) {
  if (auto* function = as<Function>(object)) return function->attributes;
  if (auto* dict = as<Dict>(object)) return dict->attributes;
  if (auto* partial = as<Partial>(object)) return partial->attributes;
  return static_cast<Object*>(object)->attributes;
}

/// A dict that a call in replay changes: the segment is captured again, with that call traced.
void look_into(const Dict* dict) {
  if (dict->hidden) throw NeedsConstant{{dict->source}};
}
}  // namespace

/// What a look-up found. That there is something is a guard, also if nobody looks at what it is.
Value* Capture::found_at(PyObject* object, const Source* source) {
  guard({source, guards::Kind::Present, {}});
  return wrap(object, source);
}

// ---- attributes

/// An object that a call in replay returns: what it has is not known; null asks for all of it.
void Capture::refuse_late(Value* object, PyObject* name) {
  auto* instance = as<Object>(object);
  if (instance && instance->made_by >= 0 && (!name || !type_lookup(instance->type, name))) cannot_ask_late(instance);
}

Value* Capture::own_attribute(Value* object, PyObject* name) {
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

void Capture::store_own_attribute(Value* object, PyObject* name, Value* value) {
  Attributes& attributes = own_attributes(object);
  Attribute* known = find(attributes, name);
  bool deleted = known && !known->value && effects_.contains(effects::Kind::StoreAttr, object, name);
  if (object->existing() && deleted && value)
    effects_.add_anew(effects::Kind::StoreAttr, object, name, moment());
  else if (object->existing())
    effects_.add(effects::Kind::StoreAttr, object, name, moment());
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

Value* Capture::slot_attribute(Object* object, PyObject* name) {
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

void Capture::store_slot_attribute(Object* object, PyObject* name, Value* value) {
  if (object->existing()) effects_.add(effects::Kind::StoreSlot, object, name, moment());
  if (Attribute* known = find(object->slots, name))
    known->value = value;
  else
    object->slots.push_back({name, value});
}

Attributes Capture::all_attributes(Value* object) {
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
    const effects::Effect* written = effects_.find(effects::Kind::StoreAttr, object, name);
    if (written && written->anew) continue;  // behind the others, where it was stored again
    if (Value* value = own_attribute(object, name)) live.push_back({name, value});
  }
  if (!object->written) return live;
  for (const effects::Effect& effect : effects_.entries()) {
    if (effect.kind != effects::Kind::StoreAttr || effect.target != object) continue;
    Attribute* written = find(own_attributes(object), effect.name);
    if (written->value && !find(live, effect.name)) live.push_back(*written);
  }
  return live;
}

// ---- globals

Value* Capture::global(Namespace* names, PyObject* name) {
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

void Capture::store_global(Namespace* names, PyObject* name, Value* value) {
  effects_.add(effects::Kind::StoreGlobal, names, name, moment());
  names->names[name] = {value, true};
}

// ---- cells

Value* Capture::cell_content(Cell* cell) {
  if (cell->read) return cell->content;
  cell->read = true;
  PyObject* content = PyCell_GET(cell->object);
  const Source* source = pool->child(cell->source, SK::Contents);
  if (!content) guard_absent(source);
  cell->content = content ? found_at(content, source) : nullptr;
  return cell->content;
}

void Capture::store_cell(Cell* cell, Value* content) {
  if (cell->existing()) effects_.add(effects::Kind::StoreCell, cell, nullptr, moment());
  cell->read = true;
  cell->content = content;
}

// ---- functions

void Capture::describe(Function* function) {
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

void Capture::will_change(Value* container) {
  container = see(container);
  if (auto* dict = as<Dict>(container)) look_into(dict);
  if (auto* deque = as<Deque>(container)) ++deque->moves;
  note_content(container);
}

void Capture::will_store_item(Value* sequence) { note_content(see(sequence)); }

namespace {
/// What leaves the container dies when replay changes it, after the effects that come later in the program.
void refuse_finalizers(PyObject* container) {
  auto visit = [](PyObject* held, void*) {
    PyTypeObject* type = Py_TYPE(held);
    return static_cast<int>((type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_finalize);
  };
  traverseproc traverse = container ? Py_TYPE(container)->tp_traverse : nullptr;
  if (traverse && traverse(container, visit, nullptr))
    cannot(Reason::CallSkipped, "a change of a container that holds objects with finalizers");
}
}  // namespace

void Capture::note_content(Value* container) {
  if (!container->existing() || container->written) return;
  bool plain = container->kind != Kind::Iterator && container->kind != Kind::Generator;
  if (plain) refuse_finalizers(container->object);
  if (auto* list = as<List>(container); list && !list->unread) originals_[list] = list->own_items;
  if (auto* deque = as<Deque>(container)) originals_[deque] = deque->items;
  if (auto* set = as<Set>(container)) guard_places(*this, set);
  effects_.add(effects::Kind::Content, container, nullptr, moment());
}

const std::vector<Value*>* Capture::original_items(Value* container) const {
  auto found = originals_.find(container);
  return found == originals_.end() ? nullptr : &found->second;
}

Value* Capture::as_key(Value* key) {
  key = see(key);
  if (key->kind == Kind::Number) constant_of(key);  // specialises
  return key;
}

Value* Capture::dict_get(Dict* dict, Value* key) {
  look_into(dict);
  key = as_key(key);
  if (!dict->entries.admits(key)) cannot(Reason::ArgumentKind, "a dict key with its own equality");
  if (Table::Entry* entry = dict->entries.find(key)) return entry->value;
  if (dict->loaded) return nullptr;
  if (key->kind != Kind::Constant || !cpython::is_plain_key(key->object)) {
    load(dict);
    Table::Entry* entry = dict->entries.find(key);
    return entry ? entry->value : nullptr;
  }
  if (dict->absent.find(key)) return nullptr;
  PyObject* found = nullptr;
  if (cpython::dict_lookup(dict->object, key->object, &found) == cpython::Lookup::NeedsPython)
    cannot(Reason::ArgumentKind, "a dict with keys of a user's class");
  const Source* source = pool->child(dict->source, SK::Value, key->object);
  if (found) return dict->entries.set(key, found_at(found, source)).value;
  guard_absent(source);
  dict->absent.set(key, nullptr);
  return nullptr;
}

namespace {
/// A key that the guards may hold: a constant, a type, a function, or a tuple of such.
bool is_held_key(PyObject* key) {
  if (PyTuple_CheckExact(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      if (!is_held_key(PyTuple_GET_ITEM(key, i))) return false;
    return true;
  }
  return cpython::is_plain_key(key) && (source::is_constant(key) || PyType_Check(key) || PyCFunction_Check(key));
}

std::vector<std::pair<PyObject*, PyObject*>> entries_of(PyObject* dict) {
  std::vector<std::pair<PyObject*, PyObject*>> entries(static_cast<size_t>(PyDict_GET_SIZE(dict)));
  bool ordered = cpython::is_ordered_dict(dict);
  for (size_t i = 0; i < entries.size(); ++i) {
    auto& [key, item] = entries[i];
    if (!ordered) {
      cpython::dict_entry(dict, static_cast<Py_ssize_t>(i), &key, &item);
      continue;
    }
    key = cpython::ordered_dict_key(dict, static_cast<Py_ssize_t>(i));
    if (cpython::dict_lookup(dict, key, &item) != cpython::Lookup::Found)
      cannot(Reason::ArgumentKind, "an OrderedDict with keys of a user's class");
  }
  return entries;
}
}  // namespace

namespace {
/// The hashes under which a dict stores its keys, in its order.
std::vector<size_t> stored_hashes(PyObject* dict) {
  std::vector<size_t> hashes;
  PyObject *key, *item;
  Py_hash_t hash;
  for (Py_ssize_t at = 0; _PyDict_Next(dict, &at, &key, &item, &hash);) hashes.push_back(static_cast<size_t>(hash));
  return hashes;
}

/// Keys that compare themselves are where their hashes were when they were stored.
void guard_hashes(Capture& capture, const Dict* dict, const std::vector<size_t>& hashes) {
  Owned<> numbers = take(PyTuple_New(static_cast<Py_ssize_t>(hashes.size())));
  for (size_t i = 0; i < hashes.size(); ++i)
    PyTuple_SET_ITEM(numbers.get(), static_cast<Py_ssize_t>(i),
                     take(PyLong_FromSsize_t(static_cast<Py_ssize_t>(hashes[i]))).release());
  capture.guard({dict->source, guards::Kind::Hashes, numbers});
}
}  // namespace

/// Keys that are objects are read at their places: the guards hold no object of the program.
void Capture::load_keys(Dict* dict, Table& into) {
  auto entries = entries_of(dict->object);
  bool held = std::all_of(entries.begin(), entries.end(), [](auto& entry) { return is_held_key(entry.first); });
  std::vector<size_t> hashes;  // where there are keys that compare themselves
  for (size_t i = 0; i < entries.size(); ++i) {
    auto [key, item] = entries[i];
    auto at = static_cast<int64_t>(i);
    Value* key_value = held ? adopt(share(key)) : see(wrap(key, pool->child(dict->source, SK::KeyAt, at)));
    if (!hashable(key_value)) {
      if (dict->type != &PyDict_Type || key_value->kind != Kind::Object)
        cannot(Reason::ArgumentKind, "a dict key with its own equality");
      if (hashes.empty()) hashes = stored_hashes(dict->object);
      if (!into.keys_of(hashes[i]).empty()) cannot(Reason::ArgumentKind, "several keys of one hash in a dict");
      into.admit(key_value, hashes[i]);
    }
    const Source* source =
        held ? pool->child(dict->source, SK::Value, key) : pool->child(dict->source, SK::ValueAt, at);
    into.set(key_value, wrap(item, source)).original = true;
  }
  if (!hashes.empty()) guard_hashes(*this, dict, hashes);
  if (!held) return guard_length(dict->source, entries.size());
  Owned<> keys = take(PyTuple_New(static_cast<Py_ssize_t>(entries.size())));
  for (size_t i = 0; i < entries.size(); ++i)
    PyTuple_SET_ITEM(keys.get(), static_cast<Py_ssize_t>(i), share(entries[i].first).release());
  guard({dict->source, guards::Kind::Keys, keys});
}

void Capture::load(Dict* dict) {
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

size_t Capture::dict_size(Dict* dict) {
  look_into(dict);
  if (!dict->loaded && dict->entries.size() == 0 && !dict->written) {
    guard_length(dict->source, PyDict_GET_SIZE(dict->object));
    return PyDict_GET_SIZE(dict->object);
  }
  load(dict);
  return dict->entries.size();
}

void Capture::dict_set(Dict* dict, Value* key, Value* value) {
  key = as_key(key);
  if (!dict->entries.admits(key)) cannot(Reason::ArgumentKind, "a dict key with its own equality");
  if (!dict->loaded && key->kind != Kind::Constant) load(dict);
  will_change(dict);
  if (dict->existing() && !dict->loaded) dict_get(dict, key);  // guards whether it is there
  dict->entries.set(key, value).changed = true;
}

bool Capture::dict_erase(Dict* dict, Value* key) {
  key = see(key);
  if (!dict_get(dict, key)) return false;
  load(dict);
  will_change(dict);
  Table::Entry* entry = dict->entries.find(key);
  if (entry->original) dict->erased.push_back({entry->key, entry->hash});
  if (PyType_IsSubtype(dict->type, &PyODict_Type)) dict->rewritten = true;
  return dict->entries.erase(key);
}

}  // namespace gramme::trace
