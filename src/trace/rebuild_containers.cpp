// How replay makes and fills containers.
#include "base/imported.h"
#include "base/once.h"
#include "cpython/replayed.h"
#include "trace/rebuild.h"

namespace gramme::trace {

using namespace value;
using plan::kNull;
using plan::Register;
using plan::ReplayKind;
using plan::ReplayOp;

Register Rebuilder::make_new(Tuple* tuple) {
  std::vector<Register> items = all(tuple->items);
  if (auto* known = remembered(tuple)) return *known;
  if (trace_.is_made(tuple->type)) {
    PyObject* const make =
        once([] { return take(PyObject_GetAttrString(imported("builtins", "tuple").get(), "__new__")).release(); });
    const Register cls = (*this)(trace_.pinned(reinterpret_cast<PyObject*>(tuple->type)));
    const Register plain = made(ReplayKind::MakeTuple, nullptr);
    operands(replay_.ops.back(), items);
    return call(make, {cls, plain});
  }
  Register result =
      made(ReplayKind::MakeTuple, tuple->type == &PyTuple_Type ? nullptr : reinterpret_cast<PyObject*>(tuple->type));
  operands(replay_.ops.back(), items);
  return result;
}

Register Rebuilder::make_new(List* list) {
  Register result = made(ReplayKind::MakeList);
  memo_[list] = result;
  if (!list->items().empty()) with_operands(ReplayKind::FillList, result, all(list->items()));
  return result;
}

Register Rebuilder::make_new(Dict* dict) {
  Register result;
  if (dict->factory) {
    Register factory = (*this)(dict->factory);
    result = made(ReplayKind::MakeDefaultDict);
    replay_.ops.back().a = factory;
  } else {
    result = made(ReplayKind::MakeDict, dict->type == &PyDict_Type ? nullptr : reinterpret_cast<PyObject*>(dict->type));
  }
  memo_[dict] = result;
  if (dict->entries.size()) fill_dict(result, dict->entries);
  store_attributes(result, dict->attributes);
  return result;
}

/// Stores a key that has its own __hash__ or __eq__ under its known hash, without calling them.
void Rebuilder::store_hashed(Register target, Table& table, const Table::Entry& entry) {
  if (table.keys_of(entry.hash).size() > 1)
    cannot(Reason::ReplayUnsupported, "several keys of one hash that compare themselves");
  Register key = (*this)(entry.key), value = entry.value ? (*this)(entry.value) : (*this)(trace_.none());
  call(cpython::hashed_setter(), {target, key, integer(static_cast<Py_ssize_t>(entry.hash)), value});
}

void Rebuilder::fill_dict(Register target, Table& table) {
  if (!table.has_own()) return with_operands(ReplayKind::FillDict, target, pairs(table));
  table.each([&](Table::Entry& entry) { store_hashed(target, table, entry); });
}

Register Rebuilder::make_new(Set* set) {
  if (set->places) {
    Register result = made(ReplayKind::CopySet, set->places);
    replay_.ops.back().number = set->frozen;
    return result;
  }
  if (set->entries.has_own()) return make_own_set(set);
  std::vector<Register> keys;
  set->entries.each([&](Table::Entry& entry) { keys.push_back((*this)(entry.key)); });
  if (auto* known = remembered(set)) return *known;
  if (set->frozen) {
    Register result = made(ReplayKind::MakeFrozenSet);
    operands(replay_.ops.back(), keys);
    return result;
  }
  Register result = made(ReplayKind::MakeSet);
  if (!keys.empty()) with_operands(ReplayKind::FillSet, result, keys);
  return result;
}

/// A set of at most one such key, made from a dict, from which it takes the hash.
Register Rebuilder::make_own_set(Set* set) {
  if (set->entries.size() > 1) cannot(Reason::ReplayUnsupported, "a set of keys with their own hash");
  Register members = made(ReplayKind::MakeDict);
  fill_dict(members, set->entries);
  if (auto* known = remembered(set)) return *known;
  return call(reinterpret_cast<PyObject*>(set->frozen ? &PyFrozenSet_Type : &PySet_Type), {members});
}

/// Fills a set with its members in their known places; if these are unknown, by the operation `otherwise`.
void Rebuilder::fill_set(Register target, Set* set, ReplayKind otherwise) {
  if (set->entries.has_own()) cannot(Reason::ReplayUnsupported, "a set of keys with their own hash");
  std::vector<Register> keys;
  if (!set->places) set->entries.each([&](Table::Entry& entry) { keys.push_back((*this)(entry.key)); });
  with_operands(set->places ? ReplayKind::PlaceMembers : otherwise, target, keys);
  if (set->places) replay_.ops.back().object = share(set->places);
}

Register Rebuilder::make_new(Deque* deque) {
  Register maxlen = constant(deque->maxlen < 0 ? Py_None : trace_.keep(take(PyLong_FromSsize_t(deque->maxlen))));
  Register result = made(ReplayKind::MakeDeque);
  replay_.ops.back().a = maxlen;
  memo_[deque] = result;
  if (!deque->items.empty()) with_operands(ReplayKind::FillDeque, result, all(deque->items));
  return result;
}

}  // namespace gramme::trace
