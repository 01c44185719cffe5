// set and frozenset: constructors and methods.
#include "builtins/python_support.h"

namespace gramme::builtins {
namespace {

using value::Set;
using value::Table;

/// The keys of any iterable, each once, in order.
Table keys_of(Trace& trace, Value* iterable) {
  Table keys;
  if (auto* set = trace.see_as<Set>(iterable)) {
    set->entries.each([&](auto& entry) { keys.set(entry.key, nullptr); });
    return keys;
  }
  Value* iterator = protocol::get_iterator(trace, iterable);
  while (Value* item = protocol::next(trace, iterator)) keys.set(as_key(trace, item), nullptr);
  return keys;
}

void add_all(Table& into, Table& from) {
  from.each([&](auto& entry) {
    if (!into.find(entry.key)) into.set(entry.key, nullptr);
  });
}

/// The entries of `from` that are (or are not) in `other`.
Table selected(Table& from, Table& other, bool present) {
  Table result;
  from.each([&](auto& entry) {
    if ((other.find(entry.key) != nullptr) == present) result.set(entry.key, nullptr);
  });
  return result;
}

// ---- making

Set* filled(Trace& trace, bool frozen, Table entries) {
  Set* set = new_set(trace, frozen);
  set->entries = std::move(entries);
  return set;
}

Value* make_set(Trace& trace, const Args& args) {
  auto [iterable] = positional<1>(args, 0);
  return filled(trace, false, iterable ? keys_of(trace, iterable) : Table());
}

/// frozenset(f) of a frozenset is that frozenset.
Value* make_frozenset(Trace& trace, const Args& args) {
  auto [iterable] = positional<1>(args, 0);
  auto* same = iterable ? trace.see_as<Set>(iterable) : nullptr;
  if (same && same->frozen) return same;
  return filled(trace, true, iterable ? keys_of(trace, iterable) : Table());
}

Value* init_set(Trace& trace, const Args& args) {
  auto [self, iterable] = positional<2>(args, 1);
  Table entries = iterable ? keys_of(trace, iterable) : Table();
  changing_set(trace, self)->entries = std::move(entries);
  return trace.none();
}

// ---- one element

Value* add(Trace& trace, const Args& args) {
  auto [self, item] = positional<2>(args, 2);
  Value* key = as_key(trace, item);
  Set* set = changing_set(trace, self);
  if (!set->entries.find(key)) set->entries.set(key, nullptr);
  return trace.none();
}

Value* discard(Trace& trace, const Args& args) {
  auto [self, item] = positional<2>(args, 2);
  changing_set(trace, self)->entries.erase(as_key(trace, item));
  return trace.none();
}

Value* remove(Trace& trace, const Args& args) {
  auto [self, item] = positional<2>(args, 2);
  if (!changing_set(trace, self)->entries.erase(as_key(trace, item))) raise_key_error(trace, item);
  return trace.none();
}

/// Which one of several comes out depends on the layout of the real set.
Value* pop(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  Set* set = content<Set>(trace, self);
  if (set->entries.size() > 1) cannot(Reason::ArgumentKind, "set.pop() of several elements");
  if (set->entries.size() == 0) raise_key_error(trace, trace.text("pop from an empty set"));
  Value* key = set->entries.first()->key;
  changing_set(trace, self)->entries.clear();
  return key;
}

Value* clear(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  changing_set(trace, self)->entries.clear();
  return trace.none();
}

/// A frozenset's copy is the frozenset.
Value* copy(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  Set* set = content<Set>(trace, self);
  return set->frozen ? set : filled(trace, false, set->entries);
}

// ---- algebra

enum class Algebra { Union, Intersection, Difference, SymmetricDifference };

template <Algebra algebra>
Table combine(Table left, Table right) {
  switch (algebra) {
    case Algebra::Union:
      add_all(left, right);
      return left;
    case Algebra::Intersection:
      return selected(left, right, true);
    case Algebra::Difference:
      return selected(left, right, false);
    default:
      break;
  }
  Table result = selected(left, right, false), others = selected(right, left, false);
  add_all(result, others);
  return result;
}

template <Algebra algebra>
Table combine_all(Trace& trace, const Args& args) {
  if (args.positional < 1 || (algebra == Algebra::SymmetricDifference && args.positional != 2))
    cannot(Reason::ArgumentKind, "arguments that a set's method refuses");
  Table result = content<Set>(trace, args[0])->entries;
  for (Value* other : all_positional(args, 1)) result = combine<algebra>(std::move(result), keys_of(trace, other));
  return result;
}

template <Algebra algebra>
Value* combined(Trace& trace, const Args& args) {
  Table entries = combine_all<algebra>(trace, args);
  return filled(trace, content<Set>(trace, args[0])->frozen, std::move(entries));
}

template <Algebra algebra>
Value* update(Trace& trace, const Args& args) {
  Table entries = combine_all<algebra>(trace, args);
  changing_set(trace, args[0])->entries = std::move(entries);
  return trace.none();
}

// ---- comparing

bool within(Table& inner, Table& outer) { return selected(inner, outer, false).size() == 0; }

Value* is_subset(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  Table keys = keys_of(trace, other);
  return trace.boolean(within(content<Set>(trace, self)->entries, keys));
}

Value* is_superset(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  Table keys = keys_of(trace, other);
  return trace.boolean(within(keys, content<Set>(trace, self)->entries));
}

Value* is_disjoint(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  Table keys = keys_of(trace, other);
  return trace.boolean(selected(content<Set>(trace, self)->entries, keys, true).size() == 0);
}

}  // namespace

void register_set() {
  add_rows("builtins", {
                           {"set", &make_set},
                           {"set.__init__", &init_set},
                           {"frozenset", &make_frozenset},
                           {"set.add", &add},
                           {"set.discard", &discard},
                           {"set.remove", &remove},
                           {"set.pop", &pop},
                           {"set.clear", &clear},
                           {"set.update", &update<Algebra::Union>},
                           {"set.intersection_update", &update<Algebra::Intersection>},
                           {"set.difference_update", &update<Algebra::Difference>},
                           {"set.symmetric_difference_update", &update<Algebra::SymmetricDifference>},
                       });
  add_rows("builtins", {"set", "frozenset"},
           {
               {"copy", &copy},
               {"union", &combined<Algebra::Union>},
               {"intersection", &combined<Algebra::Intersection>},
               {"difference", &combined<Algebra::Difference>},
               {"symmetric_difference", &combined<Algebra::SymmetricDifference>},
               {"issubset", &is_subset},
               {"issuperset", &is_superset},
               {"isdisjoint", &is_disjoint},
           });
}

}  // namespace gramme::builtins
