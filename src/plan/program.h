// The guard program: the distinct sources of a description in pre-order, each with the facts about it.
//
// Step i reads register i: the object its source names. A base comes before its children and a subtree is contiguous,
// so a program, a root or one object with all that hangs off it are ranges of steps. What an iterator gives next is
// another object at each call: it is a root of its own, with a base that comes before it.
#pragma once
#include <cstdint>
#include <vector>

#include "aten/spec.h"
#include "guards/fact.h"
#include "plan/guard_plan.h"
#include "plan/rows.h"
#include "source/source.h"

namespace gramme::plan {

struct Check {
  guards::Kind kind;
  PyObject* object = nullptr;  // owned by the fact
  int64_t number = 0;
};

struct Step {
  source::Kind kind;
  bool absent = false;    // the source must read nothing
  bool constant = false;  // one of the checks is about the value: an immutable leaf
  Evidence evidence = Evidence::Unstamped;
  uint32_t needs = kNone;
  int32_t base = -1;  // register
  uint32_t end = 0;   // one past the last step of the subtree
  int64_t index = 0;
  PyObject* key = nullptr;  // owned by the source
  const aten::TensorSpec* spec = nullptr;
  uint32_t first_check = 0, check_count = 0;
  const source::Source* source = nullptr;
};

/// True if it is a root in spite of its base.
inline bool is_read_ahead(source::Kind kind) { return source::place(kind) == source::Place::Ahead; }

/// A fact about two objects.
struct Relation {
  guards::Kind kind;
  uint32_t a, b;  // registers
};

/// What a float, or a tensor without dimensions, must lie between.
struct Content {
  uint32_t of;  // register
  double low, high;
  bool whole;
};

/// A number that guards on shapes look at: of a tensor, or the value of an int.
struct Number {
  source::Kind kind;  // SizeOf, StrideOf, OffsetOf; else the source of an int
  uint32_t of;        // register
  int64_t dimension;
};

struct Program {
  explicit Program(const GuardDescription& description);

  std::vector<Step> steps;
  std::vector<Check> checks;
  std::vector<Relation> relations;
  std::vector<uint32_t> apart;  // registers of tensors of which no two share memory; those whose sizes stay first
  std::vector<Content> contents;
  size_t apart_steady = 0;                  // how many those are
  std::vector<uint32_t> distinct;           // registers of objects of which no two may be one …
  std::vector<uint32_t> others;             // … and of those that may be none of them
  std::vector<uint32_t> roots;              // pinned objects come first, what has a base last
  uint32_t pinned_end = 0;                  // steps [0, pinned_end) hang off pinned objects
  std::vector<uint32_t> reads;              // registers, as the description lists them
  std::vector<Number> symbols, properties;  // of the description's shapes, as it lists them
};

}  // namespace gramme::plan
