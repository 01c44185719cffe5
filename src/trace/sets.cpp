#include "trace/sets.h"

#include "cpython/objects.h"

namespace gramme::trace {

using namespace value;

namespace {

Owned<> real_key(Trace& trace, Value* key);

Owned<> real_tuple(Trace& trace, Tuple* tuple) {
  if (tuple->type != &PyTuple_Type) return {};
  Owned<> result = take(PyTuple_New(static_cast<Py_ssize_t>(tuple->items.size())));
  for (size_t i = 0; i < tuple->items.size(); ++i) {
    Owned<> item = real_key(trace, trace.see(tuple->items[i]));
    if (!item) return {};
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  return result;
}

/// A real object that hashes as the key will: constants, tuples and frozensets of them, and what the segment holds.
Owned<> real_key(Trace& trace, Value* key) {
  switch (key->kind) {
    case Kind::Constant:
      return share(key->object);
    case Kind::Class:
    case Kind::Builtin: {
      bool held = key->source && key->source->kind == source::Kind::Pinned;
      bool plain = key->kind == Kind::Builtin || Py_IS_TYPE(key->object, &PyType_Type);
      return held && plain ? share(key->object) : Owned<>();
    }
    case Kind::Tuple:
      return real_tuple(trace, static_cast<Tuple*>(key));
    case Kind::Set:
      return static_cast<Set*>(key)->frozen ? real_set(trace, static_cast<Set*>(key)) : Owned<>();
    default:
      return {};
  }
}

PyObject* places_of(Trace& trace, Set* set) {
  if (!set->places && set->placed) set->places = trace.keep(take(PySet_New(nullptr)));
  return set->places;
}

void lose_places(Set* set) {
  set->places = nullptr;
  set->placed = false;
}

Owned<> copy(PyObject* places, bool frozen = false) {
  Owned<> result = take(frozen ? PyFrozenSet_New(nullptr) : PySet_New(nullptr));
  if (!cpython::place_members(result.get(), places)) throw PythonError();
  return result;
}

}  // namespace

void add_member(Trace& trace, Set* set, Value* key) {
  if (set->entries.find(key)) return;
  set->entries.set(key, nullptr);
  Owned<> real = set->placed ? real_key(trace, key) : Owned<>();
  if (real)
    check(PySet_Add(places_of(trace, set), real.get()));
  else
    lose_places(set);
}

bool discard_member(Trace& trace, Set* set, Value* key) {
  Table::Entry* entry = set->entries.find(key);
  if (!entry) return false;
  if (set->placed) check(PySet_Discard(set->places, real_key(trace, entry->key).get()));
  return set->entries.erase(key);
}

void clear_members(Set* set) {
  set->entries.clear();
  set->places = nullptr;
  set->placed = true;
}

void set_members(Trace& trace, Set* set, Table entries, Owned<> places) {
  set->entries = std::move(entries);
  set->placed = static_cast<bool>(places);
  set->places = places ? trace.keep(std::move(places)) : nullptr;
}

Value* pop_member(Trace& trace, Set* set) {
  guard_places(trace, set);
  if (!set->placed && set->entries.size() > 1) return nullptr;
  Value* key = set->entries.first()->key;
  if (set->placed) {
    Owned<> popped = take(PySet_Pop(set->places));
    key = set->entries.find(trace.adopt(std::move(popped)))->key;
  }
  set->entries.erase(key);
  return key;
}

Value* next_member(Trace& trace, Set* set, Py_ssize_t& place) {
  PyObject* key = nullptr;
  Py_hash_t hash = 0;
  if (!set->places || !_PySet_NextEntry(set->places, &place, &key, &hash)) return nullptr;
  return set->entries.find(trace.adopt(share(key)))->key;
}

std::vector<Value*> members(Trace& trace, Set* set) {
  guard_places(trace, set);
  if (set->entries.has_own() && set->entries.size() > 1)
    cannot(Reason::ArgumentKind, "going through a set of keys with their own hash");
  std::vector<Value*> result;
  if (!set->placed) {
    set->entries.each([&](Table::Entry& entry) { result.push_back(entry.key); });
    return result;
  }
  for (Py_ssize_t at = 0; Value* member = next_member(trace, set, at);) result.push_back(member);
  return result;
}

void guard_places(Trace& trace, Set* set) {
  if (!set->existing() || set->written || !set->places) return;
  trace.guard({set->source, guards::Kind::Places, copy(set->places)});
}

Owned<> real_set(Trace& trace, Set* set) { return set->placed ? copy(places_of(trace, set), set->frozen) : Owned<>(); }

Owned<> real_list(Trace& trace, Table& keys) {
  Owned<> result = take(PyList_New(0));
  bool all = true;
  keys.each([&](Table::Entry& entry) {
    Owned<> key = all ? real_key(trace, entry.key) : Owned<>();
    all = static_cast<bool>(key);
    if (all) check(PyList_Append(result.get(), key.get()));
  });
  return all ? result : Owned<>();
}

Owned<> real_dict(Trace& trace, Table& keys) {
  Owned<> list = real_list(trace, keys);
  if (!list) return {};
  Owned<> result = take(PyDict_New());
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i)
    check(PyDict_SetItem(result.get(), PyList_GET_ITEM(list.get(), i), Py_None));
  return result;
}

}  // namespace gramme::trace
