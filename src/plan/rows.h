// What guards.def and sources.def say to the plan: who compares a fact, what a bound form needs of an object, and what
// shows that a child is where it was.
//
// Everything is a closed list: a kind without its functions does not compile, and a need or an evidence that nobody
// records words for makes the object one that every check looks into again.
#pragma once
#include <cstdint>
#include <string>

#include "guards/fact.h"
#include "source/source.h"

namespace gramme::plan {

/// What the children and checks of a step look at in its object. A bound form stamps just that.
enum Needs : uint32_t {
  kNone = 0,
  kType = 1 << 0,           // its type
  kContent = 1 << 1,        // values of a dict under their keys
  kKeys = 1 << 2,           // which keys a dict has, and which not
  kOrder = 1 << 3,          // the order of a dict's keys (an OrderedDict keeps its own)
  kItems = 1 << 4,          // items of a tuple or list
  kSize = 1 << 5,           // number of items
  kAttributes = 1 << 6,     // the instance's own attributes
  kClassLookup = 1 << 7,    // names looked up on a type
  kMembers = 1 << 8,        // elements of a set
  kPosition = 1 << 9,       // where a list's iterator stands
  kInstanceDict = 1 << 10,  // the instance's dict as an object
  kRegistered = 1 << 11,    // what was registered with an abstract class
  kMaxLength = 1 << 12,     // of a deque
  kMarks = 1 << 13,         // what is marked on a tensor
  kSubclasses = 1 << 14,    // the classes directly below a class
  kCode = 1 << 15,          // a function's code
  kMethod = 1 << 16,        // what a C function is made of
  kOwnNames = 1 << 17,      // names of the instance's own attributes
  kUnstamped = 1 << 18,     // what has no stamp and no fixed address: looked into in every check
};

/// Who compares a fact.
enum class Role : uint8_t { Nobody, Check, Leaf, Relation, Signature, Absent, Read, Apart, Distinct, Others, Content };

/// What shows that a base still has a child where it was read.
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

/// For tests, which must tell: what plans made from now on take the row to say in that column is nothing at all. The
/// table is "guards" or "sources", the column one of its. False if there is no such row or column.
bool empty_column(const std::string& table, const std::string& row, const std::string& column);
/// The tables say what they say again.
void restore_columns();

}  // namespace gramme::plan
