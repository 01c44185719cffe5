// Sets as the program changes them. The order in which CPython goes through a set depends on its history and on the
// hashes of its members; where all members are constants, a real set with the same history goes along and tells it.
// Every change of value::Set::entries is made here.
#pragma once
#include "trace/capture.h"

namespace gramme::trace {

/// Keys must be seen and hashable.
void add_member(Capture& capture, value::Set* set, Value* key);
bool discard_member(Capture& capture, value::Set* set, Value* key);
void clear_members(value::Set* set);
/// The set gets these members; `places` is a real set that nobody else has, or null if their order is not known.
void set_members(Capture& capture, value::Set* set, value::Table entries, Owned<> places);
/// What set.pop() takes; null if that is not known. The set must not be empty.
Value* pop_member(Capture& capture, value::Set* set);

/// The members in CPython's order, which becomes part of the guards; the order in which they came if that is not known.
std::vector<Value*> members(Capture& capture, value::Set* set);
/// The member at or after a place in the table of a set whose places are known, as CPython's iterators find it now;
/// null at the end. `place` becomes the next one.
Value* next_member(Capture& capture, value::Set* set, Py_ssize_t& place);
/// An existing set is about to change: what it becomes depends on the places of its members.
void guard_places(Capture& capture, value::Set* set);

/// A real set (frozenset) to compute with, its members in the same places; null if they are not known.
Owned<> real_set(Capture& capture, value::Set* set);
/// A real list or dict with these keys, in order; null if some key is no constant.
Owned<> real_list(Capture& capture, value::Table& keys);
Owned<> real_dict(Capture& capture, value::Table& keys);

}  // namespace gramme::trace
