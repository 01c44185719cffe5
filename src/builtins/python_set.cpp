// set and frozenset: constructors and methods.
#include "builtins/keys.h"
#include "builtins/python_support.h"
#include "protocol/set_algebra.h"
#include "protocol/special.h"

namespace gramme::builtins {
namespace {

using protocol::SetOperation;
using value::Set;
using value::Table;

// ---- making

Set* made(Trace& trace, bool frozen, Value* iterable) {
  Set* set = new_set(trace, false);
  if (iterable) protocol::update_set(trace, set, iterable);
  set->frozen = frozen;
  return set;
}

Value* make_set(Trace& trace, const Args& args) {
  auto [iterable] = positional<1>(args, 0);
  return made(trace, false, iterable);
}

/// frozenset(x); an exact frozenset is returned itself.
Value* make_frozenset(Trace& trace, const Args& args) {
  auto [iterable] = positional<1>(args, 0);
  auto* same = iterable ? trace.see_as<Set>(iterable) : nullptr;
  return same && same->frozen ? same : made(trace, true, iterable);
}

Value* init_set(Trace& trace, const Args& args) {
  auto [self, iterable] = positional<2>(args, 1);
  Set* set = changing_set(trace, self);
  trace::clear_members(set);
  if (iterable) protocol::update_set(trace, set, iterable);
  return trace.none();
}

// ---- one element

Value* add(Trace& trace, const Args& args) {
  auto [self, item] = positional<2>(args, 2);
  Value* key = as_key(trace, item, KeyOf::Set);
  trace::add_member(trace, changing_set(trace, self), key);
  return trace.none();
}

/// A plain set is looked up as the equal frozenset, for remove() and discard().
Value* as_member(Trace& trace, Value* item) {
  auto* set = trace.see_as<Set>(item);
  if (set && !set->frozen) cannot(Reason::ArgumentKind, "a set taken out of a set");
  return as_key(trace, item, KeyOf::Set);
}

Value* discard(Trace& trace, const Args& args) {
  auto [self, item] = positional<2>(args, 2);
  Value* key = as_member(trace, item);
  trace::discard_member(trace, changing_set(trace, self), key);
  return trace.none();
}

Value* remove(Trace& trace, const Args& args) {
  auto [self, item] = positional<2>(args, 2);
  Value* key = as_member(trace, item);
  if (!trace::discard_member(trace, changing_set(trace, self), key)) raise_key_error(trace, item);
  return trace.none();
}

Value* pop(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  Set* set = changing_set(trace, self);
  if (set->entries.size() == 0) raise_key_error(trace, trace.text("pop from an empty set"));
  if (Value* key = trace::pop_member(trace, trace.facts, set)) return key;
  cannot(Reason::ArgumentKind, "set.pop() of several objects");
}

Value* clear(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  trace::clear_members(changing_set(trace, self));
  return trace.none();
}

/// copy(); an exact frozenset is its own copy.
Value* copy(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  Set* set = content<Set>(trace, self);
  bool itself = set->frozen && trace.see(self)->kind == value::Kind::Set;
  return itself ? set : protocol::copy_of_set(trace, set);
}

// ---- algebra

template <SetOperation operation, bool in_place>
Value* combine(Trace& trace, const Args& args) {
  if (args.positional < 1 || (operation == SetOperation::SymmetricDifference && args.positional != 2))
    cannot(Reason::ArgumentKind, "arguments that a set's method refuses");
  Set* set = content<Set>(trace, args[0]);
  Set* result = protocol::combine_by_method(trace, operation, set, all_positional(args, 1), in_place);
  return in_place ? trace.none() : result;
}

Value* update(Trace& trace, const Args& args) {
  std::vector<Value*> others = all_positional(args, 1);
  Set* set = changing_set(trace, args[0]);
  for (Value* other : others) protocol::update_set(trace, set, other);
  return trace.none();
}

// ---- comparing

bool within(Table& inner, Table& outer) {
  bool all = true;
  inner.each([&](Table::Entry& entry) { all = all && outer.find(entry.key); });
  return all;
}

Value* is_subset(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  Table keys = protocol::keys_of(trace, other).entries;
  return trace.boolean(within(content<Set>(trace, self)->entries, keys));
}

Value* is_superset(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  Value* others = protocol::builtin_part(trace.see(other));
  auto* set = content<Set>(trace, self);
  if (others->kind == value::Kind::Set) return trace.boolean(within(static_cast<Set*>(others)->entries, set->entries));
  Value* iterator = protocol::get_iterator(trace, other);
  while (Value* item = protocol::next(trace, iterator))  // stops at the first missing item
    if (!set->entries.find(as_key(trace, item, KeyOf::Set))) return trace.boolean(false);
  return trace.boolean(true);
}

Value* is_disjoint(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  Table keys = protocol::keys_of(trace, other).entries;
  bool disjoint = true;
  content<Set>(trace, self)->entries.each([&](Table::Entry& entry) { disjoint = disjoint && !keys.find(entry.key); });
  return trace.boolean(disjoint);
}

}  // namespace

void register_set() {
  add_rows("builtins", Takes::Asked,
           {
               {"set", &make_set},
               {"set.__init__", &init_set},
               {"frozenset", &make_frozenset},
               {"set.add", &add},
               {"set.discard", &discard},
               {"set.remove", &remove},
               {"set.pop", &pop},
               {"set.clear", &clear},
               {"set.update", &update},
               {"set.intersection_update", &combine<SetOperation::Intersection, true>},
               {"set.difference_update", &combine<SetOperation::Difference, true>},
               {"set.symmetric_difference_update", &combine<SetOperation::SymmetricDifference, true>},
           });
  add_rows("builtins", {"set", "frozenset"}, Takes::Plain,
           {
               {"copy", &copy},
               {"union", &combine<SetOperation::Union, false>},
               {"intersection", &combine<SetOperation::Intersection, false>},
               {"difference", &combine<SetOperation::Difference, false>},
               {"symmetric_difference", &combine<SetOperation::SymmetricDifference, false>},
               {"issubset", &is_subset},
               {"issuperset", &is_superset},
               {"isdisjoint", &is_disjoint},
           });
}

}  // namespace gramme::builtins
