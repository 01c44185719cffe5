// What one instruction of the running CPython is in gramme's vocabulary.
#pragma once
#include <array>
#include <cstdint>

#include "cpython/units.h"
#include "opcode/op.h"

namespace gramme::cpython {

/// One instruction in the vocabulary.
struct Part {
  opcode::Op op;
  int32_t arg;
};

/// One instruction of CPython, with those in front of it that are parts of it: EXTENDED_ARGs; the names of a call's
/// keywords and PRECALL; the bool() of what is asked for its truth.
struct Decoded {
  int32_t offset;           // code unit where it starts: the only place to resume at
  int32_t at;               // code unit where its frame stands while it runs
  int32_t next;             // code unit after its inline caches
  int32_t target = -1;      // code unit of a jump's destination
  int32_t names = -1;       // of a call: index into co_consts
  int32_t inner = -1;       // where what asks for the truth starts, if bool() stands in front; jumps may lead there
  uint8_t raw;              // CPython's opcode
  bool wants_bool = false;  // CPython's evaluator takes the top item for a bool; gramme's own asks for its truth
  uint8_t count;            // of parts: one or two
  std::array<Part, 2> parts;
};
Decoded decode_at(Units units, int unit);

/// What LOAD_COMMON_CONSTANT pushes, borrowed.
PyObject* common_constant(int index);
/// The name of what LOAD_SPECIAL finds, interned.
PyObject* special_name(int index);

}  // namespace gramme::cpython
