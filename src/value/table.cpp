// Hashing and equality of values as keys, and the table's index.
#include "value/table.h"

#include <algorithm>

#include "base/error.h"
#include "base/imported.h"
#include "base/once.h"
#include "base/process.h"
#include "cpython/objects.h"
#include "source/source.h"
#include "value/traits.h"
#include "value/value.h"

namespace gramme::value {

namespace {
bool own_equality(PyTypeObject* type) {
  if (type->tp_richcompare == nullptr || type->tp_richcompare == PyBaseObject_Type.tp_richcompare) return false;
  static PyObject* const name = intern("__eq__");
  return cpython::type_lookup(type, name) != cpython::type_lookup(&PyBaseObject_Type, name);
}

/// True if the type has its own __hash__, which may raise or return no int; enumerations' does neither.
bool own_hash(PyTypeObject* type) {
  if (type->tp_hash == PyBaseObject_Type.tp_hash) return false;
  static PyObject* const name = intern("__hash__");
  PyObject* const of_enum = once([] { return cpython::type_lookup(imported_type("enum", "Enum"), name); });
  return cpython::type_lookup(type, name) != of_enum;
}

/// The constant that equals an instance of an int or str subclass (an IntEnum member) among keys, or null.
Value* constant_part(Value* key) {
  auto* object = as<Object>(key);
  Value* payload = object ? object->payload : nullptr;
  if (!payload || payload->kind != Kind::Constant) return nullptr;
  PyTypeObject *type = object->type, *base = Py_TYPE(payload->object);
  return type->tp_hash == base->tp_hash && type->tp_richcompare == base->tp_richcompare ? payload : nullptr;
}

Value* key_part(Value* key) {
  Value* part = constant_part(key);
  return part ? part : key;
}

bool is_constant(Value* key) { return key_part(key)->kind == Kind::Constant; }

bool is_number(Value* key) {
  Value* part = key_part(key);
  return part->kind == Kind::Constant && PyNumber_Check(part->object);
}

/// True if both were read as keys of the same dict, and so differ.
bool are_keys_of_one(Value* a, Value* b) { return a->source && b->source && a->source->base == b->source->base; }

/// True if equality is known only when the segment runs: that of an address or a hook's id with another number.
bool undecided(Value* a, Value* b) {
  if (is_address(a) && is_address(b)) return a != b && (a->source || b->source) && !are_keys_of_one(a, b);
  if (is_address(a) || is_address(b)) return is_number(a) || is_number(b);
  auto *x = as<Tuple>(a), *y = as<Tuple>(b);
  if (!x || !y || x->items.size() != y->items.size()) return false;
  return !std::equal(x->items.begin(), x->items.end(), y->items.begin(),
                     [](Value* left, Value* right) { return !undecided(left, right); });
}

bool has_address(Value* key) {
  auto* tuple = as<Tuple>(key);
  return is_address(key) || (tuple && std::any_of(tuple->items.begin(), tuple->items.end(), has_address));
}

struct State {
  uint64_t last_stamp = 0;  // GIL, a word
};
Lasting<State> state;

uint64_t next_stamp() { return ++state->last_stamp; }

bool all_in(Table& keys, Table& other) {
  bool all = true;
  keys.each([&](Table::Entry& entry) { all = all && other.find(entry.key); });
  return all;
}
}  // namespace

bool is_address(Value* key) {
  auto* object = as<Object>(key);
  return object && object->type == &PyLong_Type;
}

namespace {

bool is_key(Constant* key) { return Py_TYPE(key->object)->tp_hash != PyObject_HashNotImplemented; }
bool is_key(Tuple* key) { return std::all_of(key->items.begin(), key->items.end(), hashable); }
bool is_key(Set* key) { return key->frozen; }
bool is_key(Object* key) {
  return constant_part(key) || is_address(key) || (!own_equality(key->type) && !own_hash(key->type));
}
bool is_key(Cell*) { return false; }
bool is_key(Value*) { return true; }  // compared by identity

}  // namespace

bool hashable(Value* key) {
  return has(key->kind, KEY) && as_kind<KEY>(key, [](auto* seen) { return is_key(seen); });
}

size_t hash_key(Value* key) {
  key = key_part(key);
  if (key->kind == Kind::Constant) {
    Py_hash_t hash = PyObject_Hash(key->object);
    if (hash == -1) PyErr_Clear();
    return static_cast<size_t>(hash);
  }
  if (key->kind == Kind::Tuple) {
    size_t hash = 0x345678;
    for (Value* item : static_cast<Tuple*>(key)->items) hash = hash * 1000003 + hash_key(item);
    return hash;
  }
  if (auto* set = as<Set>(key)) {  // independent of the elements' order
    size_t hash = set->entries.size();
    set->entries.each([&](Table::Entry& entry) { hash += entry.hash; });
    return hash;
  }
  key->keyed = true;
  return reinterpret_cast<size_t>(key) >> 4;
}

bool equal_keys(Value* a, Value* b) {
  a = key_part(a);
  b = key_part(b);
  if (a == b) return true;
  if (a->kind != b->kind) return false;
  if (a->kind == Kind::Constant) {
    if (a->object == b->object) return true;
    int equal = PyObject_RichCompareBool(a->object, b->object, Py_EQ);
    if (equal < 0) PyErr_Clear();
    return equal > 0;
  }
  if (a->kind == Kind::Set) {
    Table &x = static_cast<Set*>(a)->entries, &y = static_cast<Set*>(b)->entries;
    return x.size() == y.size() && all_in(x, y);
  }
  if (a->kind != Kind::Tuple) return false;
  auto &x = static_cast<Tuple*>(a)->items, &y = static_cast<Tuple*>(b)->items;
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i)
    if (!equal_keys(x[i], y[i])) return false;
  return true;
}

void Table::refuse_undecided(Value* key) {
  each([&](Entry& entry) {
    if (undecided(entry.key, key)) cannot(Reason::ArgumentKind, "id() of an object looked up among numbers");
  });
}

void Table::admit(Value* key, size_t hash) {
  admitted_ = key;
  admitted_hash_ = hash;
}

size_t Table::hash_of(Value* key) const { return key == admitted_ ? admitted_hash_ : hash_key(key); }

void Table::changed() {
  stamp_ = next_stamp();
  admitted_ = nullptr;
}

std::vector<Value*> Table::keys_of(size_t hash) {
  std::vector<Value*> found;
  if (!indexed_) {
    each([&](Entry& entry) {
      if (entry.hash == hash) found.push_back(entry.key);
    });
    return found;
  }
  std::vector<uint32_t> places;
  auto [begin, end] = index_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (entries_[it->second].key) places.push_back(it->second);
  std::sort(places.begin(), places.end());
  for (uint32_t place : places) found.push_back(entries_[place].key);
  return found;
}

/// Ends the segment if equality with a key of this hash would have to be asked of a class.
void Table::refuse_own(Value* key, size_t hash) {
  bool own = !hashable(key);
  if (key == admitted_ && !others_) return;
  bool refused = own || !is_constant(key);
  if (!refused)
    for (Value* other : keys_of(hash)) refused = refused || !hashable(other);
  if (refused) cannot(Reason::ArgumentKind, "a key with its own equality");
}

int64_t Table::position_of(Value* key, size_t hash) {
  if (addresses_ || has_address(key)) refuse_undecided(key);
  if (own_ || !hashable(key)) refuse_own(key, hash);
  if (!indexed_) {
    for (size_t i = 0; i < entries_.size(); ++i)
      if (entries_[i].key && entries_[i].hash == hash && equal_keys(entries_[i].key, key))
        return static_cast<int64_t>(i);
    return -1;
  }
  auto [begin, end] = index_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (entries_[it->second].key && equal_keys(entries_[it->second].key, key)) return it->second;
  return -1;
}

void Table::index_all() {
  indexed_ = true;
  for (size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].key) index_.emplace(entries_[i].hash, static_cast<uint32_t>(i));
}

Table::Entry* Table::find(Value* key) {
  int64_t at = position_of(key, hash_of(key));
  return at < 0 ? nullptr : &entries_[at];
}

Table::Entry& Table::set(Value* key, Value* value) {
  size_t hash = hash_of(key);
  int64_t at = position_of(key, hash);
  if (at >= 0) {
    entries_[at].value = value;
    return entries_[at];
  }
  entries_.push_back({key, value, hash, false});
  changed();
  own_ = own_ || !hashable(key);
  others_ = others_ || (hashable(key) && !is_constant(key));
  addresses_ = addresses_ || has_address(key);
  ++live_;
  if (indexed_)
    index_.emplace(hash, static_cast<uint32_t>(entries_.size() - 1));
  else if (entries_.size() > kLinear)
    index_all();
  return entries_.back();
}

bool Table::erase(Value* key) {
  size_t hash = hash_of(key);
  int64_t at = position_of(key, hash);
  if (at < 0) return false;
  entries_[at].key = nullptr;
  holes_ = true;
  changed();
  --live_;
  if (indexed_) {
    auto [begin, end] = index_.equal_range(hash);
    for (auto it = begin; it != end; ++it)
      if (it->second == at) {
        index_.erase(it);
        break;
      }
  }
  while (!entries_.empty() && !entries_.back().key) entries_.pop_back();
  return true;
}

void Table::clear() {
  entries_.clear();
  changed();
  own_ = others_ = holes_ = false;
  index_.clear();
  indexed_ = false;
  live_ = 0;
}

Table::Entry* Table::next(size_t& position) {
  while (position < entries_.size() && !entries_[position].key) ++position;
  return position < entries_.size() ? &entries_[position++] : nullptr;
}

Table::Entry* Table::last() {
  for (size_t i = entries_.size(); i-- > 0;)
    if (entries_[i].key) return &entries_[i];
  return nullptr;
}

Table::Entry* Table::first() {
  size_t position = 0;
  return next(position);
}

}  // namespace gramme::value
