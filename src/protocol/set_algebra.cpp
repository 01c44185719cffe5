// Combines the members' tables, and applies the same method to real sets with the same history to get the places.
#include "protocol/set_algebra.h"

#include "protocol/keys.h"
#include "protocol/number.h"
#include "protocol/operator_table.h"
#include "protocol/special.h"

namespace gramme::protocol {

using namespace value;

namespace {

/// The entries of `from` that are (or are not) in `other`.
Table selected(Table& from, Table& other, bool present) {
  Table result;
  from.each([&](Table::Entry& entry) {
    if ((other.find(entry.key) != nullptr) == present) result.set(entry.key, nullptr);
  });
  return result;
}

void add_all(Table& into, Table& from) {
  from.each([&](Table::Entry& entry) {
    if (!into.find(entry.key)) into.set(entry.key, nullptr);
  });
}

Table combined(SetOperation operation, Table left, Table& right) {
  switch (operation) {
    case SetOperation::Union:
      add_all(left, right);
      return left;
    case SetOperation::Intersection:
      return selected(left, right, true);
    case SetOperation::Difference:
      return selected(left, right, false);
    case SetOperation::SymmetricDifference:
      break;
  }
  Table result = selected(left, right, false), others = selected(right, left, false);
  add_all(result, others);
  return result;
}

SetOperation operation_of(int op) {
  switch (plain_operator(op)) {
    case NB_AND:
      return SetOperation::Intersection;
    case NB_SUBTRACT:
      return SetOperation::Difference;
    case NB_XOR:
      return SetOperation::SymmetricDifference;
    default:
      return SetOperation::Union;
  }
}

const char* method_name(SetOperation operation, bool in_place) {
  static const char* const kNames[][2] = {{"union", "update"},
                                          {"intersection", "intersection_update"},
                                          {"difference", "difference_update"},
                                          {"symmetric_difference", "symmetric_difference_update"}};
  return kNames[static_cast<int>(operation)][in_place];
}

/// Calls a method of a real set; returns its result, or the set if the method works in place.
Owned<> call_method(Owned<> set, const char* name, const std::vector<Keys>& others) {
  Owned<> method = take(PyObject_GetAttrString(set.get(), name));
  std::vector<PyObject*> args;
  for (const Keys& other : others) args.push_back(other.real.get());
  Owned<> result = take(PyObject_Vectorcall(method.get(), args.data(), args.size(), nullptr));
  return result.get() == Py_None ? set : result;
}

Owned<> apply_operator(int op, PyObject* left, PyObject* right) {
  static constexpr std::pair<int, binaryfunc> kFunctions[] = {
      {NB_AND, PyNumber_And},
      {NB_SUBTRACT, PyNumber_Subtract},
      {NB_XOR, PyNumber_Xor},
      {NB_OR, PyNumber_Or},
      {NB_INPLACE_AND, PyNumber_InPlaceAnd},
      {NB_INPLACE_SUBTRACT, PyNumber_InPlaceSubtract},
      {NB_INPLACE_XOR, PyNumber_InPlaceXor},
      {NB_INPLACE_OR, PyNumber_InPlaceOr},
  };
  for (auto [number, function] : kFunctions)
    if (number == op) return take(function(left, right));
  GRAMME_BUG("no operator of sets");
}

/// A real view of a dict with these keys or items.
Owned<> real_view(Trace& trace, View::Which which, Table& entries) {
  Owned<> dict;
  if (which == View::Keys) {
    dict = trace::real_dict(trace, entries);
  } else if (Owned<> pairs = trace::real_list(trace, entries)) {
    dict = take(PyDict_New());
    check(PyDict_MergeFromSeq2(dict.get(), pairs.get(), 1));
  }
  if (!dict) return {};
  return take(PyObject_CallMethod(dict.get(), which == View::Keys ? "keys" : "items", nullptr));
}

/// The Set in an instance of a set subclass; CPython reads its members directly, past __iter__.
Value* set_part(Value* seen) {
  Value* held = payload_of(seen);
  return held && held->kind == Kind::Set ? held : seen;
}

}  // namespace

Keys keys_of(Trace& trace, Value* iterable) {
  iterable = set_part(trace.see(iterable));
  if (auto* set = as<Set>(iterable)) return operand_of(trace, set);
  Keys keys;
  Value* iterator = get_iterator(trace, iterable);
  while (Value* item = next(trace, iterator)) keys.entries.set(table_key(trace, item), nullptr);
  auto* dict = as<Dict>(iterable);
  bool plain_dict = dict && dict->type == &PyDict_Type;
  keys.real = plain_dict ? trace::real_dict(trace, keys.entries) : trace::real_list(trace, keys.entries);
  return keys;
}

Keys operand_of(Trace& trace, Value* seen) {
  if (auto* set = as<Set>(seen)) {
    trace::guard_places(trace.facts, set);
    return {set->entries, trace::real_set(trace, set)};
  }
  Keys keys;
  for (Value* item : items_of(trace, seen)) keys.entries.set(table_key(trace, item), nullptr);
  auto* view = as<View>(seen);
  keys.real = view ? real_view(trace, view->which, keys.entries) : trace::real_list(trace, keys.entries);
  return keys;
}

/// Adds item by item from iterables other than sets and dicts, as CPython does, so a failure leaves earlier items
/// added.
void update_set(Trace& trace, Set* set, Value* iterable) {
  iterable = set_part(trace.see(iterable));
  auto* dict = as<Dict>(iterable);
  if (iterable->kind == Kind::Set || (dict && dict->type == &PyDict_Type)) {
    combine_by_method(trace, SetOperation::Union, set, {iterable}, true);
    return;
  }
  Value* iterator = get_iterator(trace, iterable);
  trace.will_change(set);
  while (Value* item = next(trace, iterator)) trace::add_member(trace, set, table_key(trace, item, KeyOf::Set));
}

Set* combine_by_method(Trace& trace, SetOperation operation, Set* set, const std::vector<Value*>& others,
                       bool in_place) {
  std::vector<Keys> keys;
  for (Value* other : others) keys.push_back(keys_of(trace, other));
  trace::guard_places(trace.facts, set);
  Owned<> places = trace::real_set(trace, set);
  Table entries = set->entries;
  for (Keys& other : keys) {
    entries = combined(operation, std::move(entries), other.entries);
    if (!other.real) places = {};
  }
  if (places) places = call_method(std::move(places), method_name(operation, in_place), keys);
  Set* result = in_place ? set : trace.make<Set>();
  if (in_place)
    trace.will_change(set);
  else
    result->frozen = set->frozen;
  trace::set_members(trace, result, std::move(entries), std::move(places));
  return result;
}

Value* combine_by_operator(Trace& trace, int op, Value* left, Value* right) {
  auto* set = as<Set>(left);
  bool with_view = !set || right->kind == Kind::View;
  bool in_place = set && !set->frozen && right->kind != Kind::View && is_in_place(op);
  Keys first = operand_of(trace, left), second = operand_of(trace, right);
  Table entries = combined(operation_of(op), std::move(first.entries), second.entries);
  Owned<> places;
  if (first.real && second.real)
    places = apply_operator(in_place ? op : plain_operator(op), first.real.get(), second.real.get());
  Set* result = in_place ? set : trace.make<Set>();
  if (in_place)
    trace.will_change(set);
  else
    result->frozen = set && set->frozen && !with_view;
  trace::set_members(trace, result, std::move(entries), std::move(places));
  return result;
}

Set* copy_of_set(Trace& trace, Set* set) {
  trace::guard_places(trace.facts, set);
  auto* result = trace.make<Set>();
  result->frozen = set->frozen;
  Owned<> places = trace::real_set(trace, set);
  if (places && !set->frozen) places = call_method(std::move(places), "copy", {});
  trace::set_members(trace, result, set->entries, std::move(places));
  return result;
}

}  // namespace gramme::protocol
