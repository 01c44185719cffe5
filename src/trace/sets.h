// Sets as the program changes them. CPython's iteration order of a set depends on its history and its members' hashes.
// While all members are constants, a real set with the same history is kept, which has that order. value::Set::entries
// changes only here.
#pragma once
#include "guards/fact_list.h"
#include "trace/values.h"

namespace gramme::trace {

/// Keys must be seen and hashable.
void add_member(Values& values, value::Set* set, Value* key);
bool discard_member(Values& values, value::Set* set, Value* key);
void clear_members(value::Set* set);
/// Replaces the members. `places` is a real set of them that nobody else holds, or null if their order is unknown.
void set_members(Values& values, value::Set* set, value::Table entries, Owned<> places);
/// The member that set.pop() takes; null if unknown. The set must not be empty.
Value* pop_member(Values& values, guards::FactList& facts, value::Set* set);

/// The members in CPython's order, which is then guarded; in insertion order if that is unknown.
std::vector<Value*> members(Values& values, guards::FactList& facts, value::Set* set);
/// The member at or after a place in the table of a set whose places are known, as CPython's iterators find it now;
/// null at the end. `place` becomes the next one.
Value* next_member(Values& values, value::Set* set, Py_ssize_t& place);
/// Call before an existing set changes: guards the places of its members, on which later order depends.
void guard_places(guards::FactList& facts, const value::Set* set);

/// A real set (frozenset) to compute with, with its members in the same places; null if these are unknown.
Owned<> real_set(Values& values, value::Set* set);
/// A real list or dict with these keys, in order; null if some key has no known real form.
Owned<> real_list(Values& values, value::Table& keys);
Owned<> real_dict(Values& values, value::Table& keys);

}  // namespace gramme::trace
