// Every change of a set's members, mirrored in a real set (`places`) with the same history as long as all members have
// known hashes.
#include "trace/sets.h"

#include "cpython/entries.h"
#include "cpython/objects.h"
#include "value/traits.h"

namespace gramme::trace {

using namespace value;

namespace {

Owned<> real_key(Values& values, Value* key);

bool is_held(Value* key) { return key->source && key->source->kind == source::Kind::Pinned; }

Owned<> real_form(Values&, Constant* key) { return share(key->object); }
Owned<> real_form(Values&, Builtin* key) { return is_held(key) ? share(key->object) : Owned<>(); }
Owned<> real_form(Values&, Class* key) {
  return is_held(key) && Py_IS_TYPE(key->object, &PyType_Type) ? share(key->object) : Owned<>();
}
Owned<> real_form(Values& values, Tuple* tuple) {
  if (tuple->type != &PyTuple_Type) return {};
  Owned<> result = take(PyTuple_New(static_cast<Py_ssize_t>(tuple->items.size())));
  for (size_t i = 0; i < tuple->items.size(); ++i) {
    Owned<> item = real_key(values, values.see(tuple->items[i]));
    if (!item) return {};
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  return result;
}
Owned<> real_form(Values& values, Set* key) { return key->frozen ? real_set(values, key) : Owned<>(); }
Owned<> real_form(Values&, Value*) { return {}; }

/// A real object with the same hash as the key; null if the hash is unknown. Exists for constants, tuples and
/// frozensets of them, and objects held by the segment.
Owned<> real_key(Values& values, Value* key) {
  if (!has(key->kind, KEY)) return {};
  return as_kind<KEY>(key, [&](auto* seen) { return real_form(values, seen); });
}

PyObject* places_of(Values& values, Set* set) {
  if (!set->places && set->placed) set->places = values.keep(take(PySet_New(nullptr)));
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

void add_member(Values& values, Set* set, Value* key) {
  if (set->entries.find(key)) return;
  set->entries.set(key, nullptr);
  Owned<> real = set->placed ? real_key(values, key) : Owned<>();
  if (real)
    check(PySet_Add(places_of(values, set), real.get()));
  else
    lose_places(set);
}

bool discard_member(Values& values, Set* set, Value* key) {
  Table::Entry* entry = set->entries.find(key);
  if (!entry) return false;
  if (set->placed) check(PySet_Discard(set->places, real_key(values, entry->key).get()));
  return set->entries.erase(key);
}

void clear_members(Set* set) {
  set->entries.clear();
  set->places = nullptr;
  set->placed = true;
}

void set_members(Values& values, Set* set, Table entries, Owned<> places) {
  set->entries = std::move(entries);
  set->placed = static_cast<bool>(places);
  set->places = places ? values.keep(std::move(places)) : nullptr;
}

Value* pop_member(Values& values, guards::FactList& facts, Set* set) {
  guard_places(facts, set);
  if (!set->placed && set->entries.size() > 1) return nullptr;
  Value* key = set->entries.first()->key;
  if (set->placed) {
    Owned<> popped = take(PySet_Pop(set->places));
    key = set->entries.find(values.adopt(std::move(popped)))->key;
  }
  set->entries.erase(key);
  return key;
}

Value* next_member(Values& values, Set* set, Py_ssize_t& place) {
  PyObject* key = nullptr;
  Py_hash_t hash = 0;
  if (!set->places || !cpython::next_member(set->places, &place, &key, &hash)) return nullptr;
  return set->entries.find(values.adopt(share(key)))->key;
}

std::vector<Value*> members(Values& values, guards::FactList& facts, Set* set) {
  guard_places(facts, set);
  if (set->entries.has_own() && set->entries.size() > 1)
    cannot(Reason::ArgumentKind, "going through a set of keys with their own hash");
  std::vector<Value*> result;
  if (!set->placed) {
    set->entries.each([&](Table::Entry& entry) { result.push_back(entry.key); });
    return result;
  }
  for (Py_ssize_t at = 0; Value* member = next_member(values, set, at);) result.push_back(member);
  return result;
}

void guard_places(guards::FactList& facts, const Set* set) {
  if (!set->existing() || set->written || !set->places) return;
  facts.add({set->source, guards::Kind::Places, copy(set->places)});
}

Owned<> real_set(Values& values, Set* set) {
  return set->placed ? copy(places_of(values, set), set->frozen) : Owned<>();
}

Owned<> real_list(Values& values, Table& keys) {
  Owned<> result = take(PyList_New(0));
  bool all = true;
  keys.each([&](Table::Entry& entry) {
    Owned<> key = all ? real_key(values, entry.key) : Owned<>();
    all = static_cast<bool>(key);
    if (all) check(PyList_Append(result.get(), key.get()));
  });
  return all ? result : Owned<>();
}

Owned<> real_dict(Values& values, Table& keys) {
  Owned<> list = real_list(values, keys);
  if (!list) return {};
  Owned<> result = take(PyDict_New());
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i)
    check(PyDict_SetItem(result.get(), PyList_GET_ITEM(list.get(), i), Py_None));
  return result;
}

}  // namespace gramme::trace
