// The guard program: the distinct sources of a description in pre-order, each with the facts about it.
//
// Step i fills register i with the object that its source names. A base precedes its children, and subtrees are
// contiguous, so a program, a root, and an object with its subtree are ranges of steps. The next item of an iterator
// differs at each call, so it is a root of its own whose base precedes it.
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
  bool absent = false;    // the source must find nothing
  bool constant = false;  // some check compares the value: an immutable leaf
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

/// True for sources that are roots although they have a base.
inline bool is_read_ahead(source::Kind kind) { return source::place(kind) == source::Place::Ahead; }

/// A fact about two objects.
struct Relation {
  guards::Kind kind;
  uint32_t a, b;  // registers
};

/// The interval required of a float, or of a tensor without dimensions.
struct Content {
  uint32_t of;  // register
  double low, high;
  bool whole;
};

/// A number that shape guards read: of a tensor, or the value of an int.
struct Number {
  source::Kind kind;  // SizeOf, StrideOf, OffsetOf; otherwise an int
  uint32_t of;        // register
  int64_t dimension;
};

struct Program {
  explicit Program(const GuardDescription& description);

  std::vector<Step> steps;
  std::vector<Check> checks;
  std::vector<Relation> relations;
  std::vector<uint32_t> apart;  // registers of tensors that must not share memory; those with fixed sizes first
  std::vector<Content> contents;
  size_t apart_steady = 0;                  // number of those with fixed sizes
  std::vector<uint32_t> distinct;           // registers of objects that must be pairwise different …
  std::vector<uint32_t> others;             // … and of objects that must be none of them
  std::vector<uint32_t> roots;              // pinned objects first, roots with a base last
  uint32_t pinned_end = 0;                  // steps [0, pinned_end): pinned objects and their subtrees
  std::vector<uint32_t> reads;              // registers, in the description's order
  std::vector<Number> symbols, properties;  // those of the description's shapes, in its order
};

}  // namespace gramme::plan
