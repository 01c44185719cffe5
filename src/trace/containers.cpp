// The content of existing and new containers as the program sees it, and their changes.
#include <algorithm>

#include "cpython/entries.h"
#include "cpython/objects.h"
#include "source/constant.h"
#include "trace/capture.h"
#include "trace/dying.h"
#include "trace/sets.h"

namespace gramme::trace {

using namespace value;
using SK = source::Kind;

namespace {
/// For a dict that a call in replay changes: starts the capture again, with that call traced.
void look_into(const Dict* dict) {
  if (dict->hidden) throw NeedsConstant{{dict->source}};
}
}  // namespace

// ---- changes

void Capture::will_change(Value* container) {
  container = see(container);
  if (auto* dict = as<Dict>(container)) look_into(dict);
  if (auto* deque = as<Deque>(container)) ++deque->moves;
  note_content(container);
}

void Capture::will_store_item(Value* sequence) { note_content(see(sequence)); }

/// Counts appended items first, then those that were there. The latter only if an earlier capture saw another length.
Value* Capture::item_from_end(List* list, size_t place) {
  if (!list->unread) return nullptr;
  const size_t appended = list->own_items.size();
  if (place <= appended) return list->own_items[appended - place];
  const auto size = static_cast<int64_t>(PyList_GET_SIZE(list->object)), back = static_cast<int64_t>(place - appended);
  const auto before = policy.lengths.find(list->source->path);
  if (before == policy.lengths.end() || before->second == size || back > size) return nullptr;
  return wrap(PyList_GET_ITEM(list->object, size - back), pool->child(list->source, SK::Item, -back));
}

namespace {
/// Ends the segment if an item has a finalizer: an item that is removed dies only at replay, after effects that come
/// later in the program.
void refuse_finalizers(PyObject* container) {
  auto visit = [](PyObject* held, void*) { return static_cast<int>(cpython::has_finalizer(held)); };
  traverseproc traverse = container ? Py_TYPE(container)->tp_traverse : nullptr;
  if (traverse && traverse(container, visit, nullptr))
    cannot(Reason::CallSkipped, "a change of a container that holds objects with finalizers");
}
}  // namespace

void Capture::note_content(Value* container) {
  confinement.changes(container);
  if (!container->existing() || container->written) return;
  bool plain = container->kind != Kind::Iterator && container->kind != Kind::Generator;
  if (plain) refuse_finalizers(container->object);
  if (auto* list = as<List>(container); list && !list->unread) originals_[list] = list->own_items;
  if (auto* deque = as<Deque>(container)) originals_[deque] = deque->items;
  if (auto* set = as<Set>(container)) guard_places(facts, set);
  effects_.add(effects::Kind::Content, container, nullptr, moment());
}

const std::vector<Value*>* Capture::original_items(Value* container) const {
  auto found = originals_.find(container);
  return found == originals_.end() ? nullptr : &found->second;
}

// ---- dicts

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
  if (key->kind != Kind::Constant || !cpython::is_inert_key(key->object)) {
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
  facts.add_absent(source);
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
  return cpython::is_inert_key(key) && (source::is_constant(key) || PyType_Check(key) || PyCFunction_Check(key));
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

/// The hashes under which a dict stores its keys, in its order.
std::vector<size_t> stored_hashes(PyObject* dict) {
  std::vector<size_t> hashes;
  PyObject *key, *item;
  Py_hash_t hash;
  for (Py_ssize_t at = 0; cpython::next_entry(dict, &at, &key, &item, &hash);)
    hashes.push_back(static_cast<size_t>(hash));
  return hashes;
}

/// Guards the stored hashes of keys with their own __eq__ or __hash__: these determine where the dict finds them.
void guard_hashes(guards::FactList& facts, const Dict* dict, const std::vector<size_t>& hashes) {
  Owned<> numbers = take(PyTuple_New(static_cast<Py_ssize_t>(hashes.size())));
  for (size_t i = 0; i < hashes.size(); ++i)
    PyTuple_SET_ITEM(numbers.get(), static_cast<Py_ssize_t>(i),
                     take(PyLong_FromSsize_t(static_cast<Py_ssize_t>(hashes[i]))).release());
  facts.add({dict->source, guards::Kind::Hashes, numbers});
}
}  // namespace

namespace {
/// True if the dict of hooks had other ids at an earlier capture.
bool has_other_ids(const Policy& policy, const Source* source, PyObject* dict) {
  const auto before = policy.keys.find(source->path);
  if (before == policy.keys.end()) return false;
  const auto entries = entries_of(dict);
  bool same = static_cast<Py_ssize_t>(entries.size()) == PyTuple_GET_SIZE(before->second.get());
  for (size_t i = 0; i < entries.size(); ++i) {
    PyObject* key = entries[i].first;
    if (!PyLong_CheckExact(key)) return false;
    same = same && source::same_constant(key, PyTuple_GET_ITEM(before->second.get(), static_cast<Py_ssize_t>(i)));
  }
  return !same;
}
}  // namespace

/// An unknown int for a hook's id; known only to differ from the other keys.
Value* Capture::id_of_hook(PyObject* id, const Source* source) {
  Value* found = objects.find(id);
  if (found && found->source != source) cannot(Reason::ArgumentKind, "one id of two hooks");
  if (found) return found;
  facts.add_type(source, &PyLong_Type);
  auto* made = make<Object>(source, id);
  made->type = &PyLong_Type;
  objects.add(id, made);
  return made;
}

/// Reads keys that are objects by their position in the dict, because guards hold no object of the program.
void Capture::load_keys(Dict* dict, Table& into) {
  auto entries = entries_of(dict->object);
  bool held = std::all_of(entries.begin(), entries.end(), [](auto& entry) { return is_held_key(entry.first); });
  const bool ids = is_of_hooks(dict->source) && has_other_ids(policy, dict->source, dict->object);
  held = held && !ids;
  std::vector<size_t> hashes;  // only if some keys compare themselves
  for (size_t i = 0; i < entries.size(); ++i) {
    auto [key, item] = entries[i];
    auto at = static_cast<int64_t>(i);
    const Source* place = held ? nullptr : pool->child(dict->source, SK::KeyAt, at);
    Value* key_value = held ? adopt(share(key)) : ids ? id_of_hook(key, place) : see(wrap(key, place));
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
  if (!hashes.empty()) guard_hashes(facts, dict, hashes);
  if (!held) return facts.add_length(dict->source, entries.size());
  Owned<> keys = take(PyTuple_New(static_cast<Py_ssize_t>(entries.size())));
  for (size_t i = 0; i < entries.size(); ++i)
    PyTuple_SET_ITEM(keys.get(), static_cast<Py_ssize_t>(i), share(entries[i].first).release());
  facts.add({dict->source, guards::Kind::Keys, keys});
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
    facts.add_length(dict->source, PyDict_GET_SIZE(dict->object));
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
