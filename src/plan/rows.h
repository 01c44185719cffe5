// The columns of guards.def and sources.def that the plan reads: who compares a fact, what a bound form must stamp of
// an object, and what shows that a child is unchanged.
//
// The lists are closed: a kind without its functions does not compile. An object with a need or evidence for which no
// words are recorded is read again in every check.
#pragma once
#include <cstdint>
#include <string>

#include "guards/fact.h"
#include "source/source.h"

namespace gramme::plan {

/// The parts of an object that the children and checks of its step depend on. A bound form stamps only those.
enum Needs : uint32_t {
  kNone = 0,
  kType = 1 << 0,           // its type
  kContent = 1 << 1,        // values of a dict under their keys
  kKeys = 1 << 2,           // the set of keys of a dict
  kOrder = 1 << 3,          // the order of a dict's keys (an OrderedDict keeps its own)
  kItems = 1 << 4,          // items of a tuple or list
  kSize = 1 << 5,           // number of items
  kAttributes = 1 << 6,     // the instance's own attributes
  kClassLookup = 1 << 7,    // names looked up on a type
  kMembers = 1 << 8,        // elements of a set
  kPosition = 1 << 9,       // the position of a list iterator
  kInstanceDict = 1 << 10,  // the identity of the instance's dict
  kRegistered = 1 << 11,    // registrations with abstract base classes
  kMaxLength = 1 << 12,     // maxlen of a deque
  kMarks = 1 << 13,         // dynamic-size marks on a tensor
  kSubclasses = 1 << 14,    // the classes directly below a class
  kCode = 1 << 15,          // a function's code
  kMethod = 1 << 16,        // the method definition and self of a C function
  kOwnNames = 1 << 17,      // names of the instance's attributes
  kUnstamped = 1 << 18,     // has no stamp and no fixed address: read in every check
};

/// Who compares a fact.
enum class Role : uint8_t { Nobody, Check, Leaf, Relation, Signature, Absent, Read, Apart, Distinct, Others, Content };

/// What proves that a base still has the same child.
enum class Evidence : uint8_t { Unstamped, Stamp, Field, Fixed, Own, Root, Ahead };

struct GuardRow {
  Role role;
  uint32_t needs;
};

struct SourceRow {
  uint32_t needs;
  Evidence evidence;
};

const GuardRow& row(guards::Kind kind);
const SourceRow& row(source::Kind kind);

/// For tests, which must then fail: empties a column of a row for plans made from now on. `table` is "guards" or
/// "sources". False if there is no such row or column.
bool empty_column(const std::string& table, const std::string& row, const std::string& column);
/// Restores the columns of the tables.
void restore_columns();

}  // namespace gramme::plan
