// Keys of dicts and sets, and lookups of keys whose classes define __hash__ and __eq__.
#include "protocol/keys.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "aten/classes.h"
#include "base/text.h"
#include "cpython/features.h"
#include "protocol/answers.h"
#include "protocol/number.h"
#include "protocol/special.h"
#include "value/traits.h"

namespace gramme::protocol {

using namespace value;

namespace {

/// True if hash() of the key raises TypeError.
bool is_unhashable(Trace& trace, Value* key) {
  static PyObject* const hash = intern("__hash__");
  if (auto* set = as<Set>(key)) return !set->frozen;
  if (auto* view = as<View>(key)) return view->which != View::Values;
  if (GRAMME_PYTHON_SLICES_HASH && key->kind == Kind::Slice) return false;
  return has(key->kind, UNHASHABLE) || (key->kind == Kind::Object && forbidden(trace, key, hash));
}

Value* fit_key(Trace& trace, Value* key, Value* whole, KeyOf use);

Value* hash_tuple(Trace& trace, Tuple* tuple, Value* whole, KeyOf use) {
  Trace::Deeper deeper(trace);
  for (Value*& item : tuple->items) item = fit_key(trace, item, whole, use);
  if (!hashable(tuple)) cannot(Reason::OpaqueCallback, "a dict key with its own equality");
  return tuple;
}

/// Sees a key and all its parts. `whole` is the key that contains this one, or itself.
Value* fit_key(Trace& trace, Value* key, Value* whole, KeyOf use) {
  if (auto* tuple = as<Tuple>(key = trace.see(key))) return hash_tuple(trace, tuple, whole ? whole : key, use);
  if (auto* number = as<Number>(key)) return trace.constant(known_number(trace, number, Reason::DataDependentValue));
  if (is_unhashable(trace, key)) raise_unhashable(trace, whole ? whole : key, key, use);
  auto* tensor = as<Tensor>(key);
  if (tensor && !aten::is_exact_tensor_type(tensor->record->type))
    cannot(Reason::OpaqueCallback, "a tensor of a subclass as a key");
  if (!hashable(key)) cannot(Reason::OpaqueCallback, "a dict or set key of type " + type_name(key));
  return key;
}

}  // namespace

KeyOf key_of(const Dict* dict) { return PyType_IsSubtype(dict->type, &PyODict_Type) ? KeyOf::Other : KeyOf::Dict; }

void raise_unhashable(Trace& trace, [[maybe_unused]] Value* key, Value* part, [[maybe_unused]] KeyOf use) {
  std::string text = "unhashable type: '" + type_name(part) + "'";
#if GRAMME_PYTHON_KEYS_ARE_FOR
  if (use == KeyOf::Other) cannot(Reason::ArgumentKind, text);
  const std::string type = utf8_of(take(PyType_GetFullyQualifiedName(type_of(key))).get());
  text = "cannot use '" + type + (use == KeyOf::Dict ? "' as a dict key (" : "' as a set element (") + text + ")";
#endif
  raise(trace, PyExc_TypeError, text);
}

Value* table_key(Trace& trace, Value* key, KeyOf use) { return fit_key(trace, key, nullptr, use); }
Value* table_key(Trace& trace, Value* key) { return table_key(trace, key, KeyOf::Other); }

namespace {

/// The result of a key's __hash__. Ends the segment at a TypeError if CPython replaces it by another exception.
Value* hash_answer(Trace& trace, Value* method) {
  try {
    return call(trace, method, {});
  } catch (const UserError& error) {
    if (GRAMME_PYTHON_KEYS_ARE_FOR && matches(trace, error.exception, trace.pinned(PyExc_TypeError)))
      cannot(Reason::OpaqueCallback, "a TypeError of __hash__");
    throw;
  }
}

/// The hash that hash() makes of the class's __hash__ result.
size_t own_hash(Trace& trace, Value* key) {
  static PyObject* const name = intern("__hash__");
  Value* method = own_method(trace, key, name);
  PyObject* answer = method ? trace.constant_of(hash_answer(trace, method)) : nullptr;
  if (!answer || !PyLong_CheckExact(answer)) cannot(Reason::OpaqueCallback, "the hash of a " + type_name(key));
  return static_cast<size_t>(hash_answered(answer));
}

/// A lookup probes places until one is free, and may probe a place twice, comparing its key twice. True if that cannot
/// happen for this hash: it visits more distinct places than there are keys first, for any table size.
bool asks_once(size_t hash, size_t keys) {
  constexpr int kPerturbShift = 5, kLargest = 24;  // as in CPython's dicts and sets; tables of 8 places and more
  for (int size = 3; size <= kLargest; ++size) {
    const size_t mask = (size_t{1} << size) - 1;
    std::vector<size_t> seen;
    size_t perturb = hash, at = hash & mask;
    for (size_t i = 0; i <= keys && seen.size() <= mask; ++i) {
      if (std::find(seen.begin(), seen.end(), at) != seen.end()) return false;
      seen.push_back(at);
      perturb >>= kPerturbShift;
      at = (at * 5 + perturb + 1) & mask;
    }
  }
  return true;
}

/// The table's key that equals this one, compared in CPython's way; else the key itself.
Value* equal_key(Trace& trace, Table& table, const std::vector<Value*>& others, Value* key, size_t hash) {
  uint64_t stamp = table.stamp();
  bool asked = false;
  for (Value* other : others) {
    if (same(trace, other, key)) return other;
    if (hashable(other) && hashable(key)) continue;  // the table itself compares these
    if (std::exchange(asked, true) && (table.has_holes() || !asks_once(hash, table.size())))
      cannot(Reason::OpaqueCallback, "a key that is asked twice");
    bool found = truth(trace, compare(trace, Py_EQ, other, key));
    if (table.stamp() != stamp) cannot(Reason::OpaqueCallback, "an __eq__ that changes the table it is asked for");
    if (found) return other;
  }
  if (asked && (table.has_holes() || !asks_once(hash, table.size())))
    cannot(Reason::OpaqueCallback, "a key that is asked twice");
  return key;
}

/// `in_order`: several keys of one hash are compared in insertion order. Otherwise the order depends on their places.
Value* look_up(Trace& trace, Table& table, Value* key, KeyOf use, bool in_order) {
  key = trace.see(key);
  static PyObject* const hash_name = intern("__hash__");
  bool own = key->kind == Kind::Object && !hashable(key) && !forbidden(trace, key, hash_name);
  if (!own) key = table_key(trace, key, use);
  if (!own && (!table.has_own() || key->kind != Kind::Constant)) return key;
  size_t hash = own ? own_hash(trace, key) : hash_key(key);
  std::vector<Value*> others = table.keys_of(hash);
  if (others.size() > 1 && !in_order)
    cannot(Reason::OpaqueCallback, "several keys of one hash that compare themselves");
  key = equal_key(trace, table, others, key, hash);
  table.admit(key, hash);
  return key;
}

}  // namespace

Value* key_in(Trace& trace, Table& members, Value* key) { return look_up(trace, members, key, KeyOf::Set, false); }

Value* key_in(Trace& trace, Dict* dict, Value* key) {
  bool own = !hashable(key = trace.see(key)) && key->kind == Kind::Object;
  if (own && (dict->hidden || dict->type != &PyDict_Type))
    cannot(Reason::OpaqueCallback, "a key of type " + type_name(key));
  if (own) trace.load(dict);
  const bool in_order = !dict->existing() && !dict->entries.has_holes();
  return look_up(trace, dict->entries, key, key_of(dict), in_order);
}

PyObject* name_key(Trace& trace, Value* key) {
  key = table_key(trace, key, KeyOf::Dict);
  if (!is_constant_of(key, &PyUnicode_Type)) return nullptr;
  PyObject* name = share(key->object).release();  // by hand: PyUnicode_InternInPlace takes and gives a reference
  PyUnicode_InternInPlace(&name);
  return trace.keep(Owned<>::steal(name));
}

}  // namespace gramme::protocol
