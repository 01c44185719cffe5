// Decodes an instruction of the running CPython into gramme's vocabulary.
#pragma once
#include <array>
#include <cstdint>

#include "cpython/units.h"
#include "opcode/op.h"

namespace gramme::cpython {

/// An instruction of the vocabulary with its argument.
struct Part {
  opcode::Op op;
  int32_t arg;
};

/// An instruction of CPython with its prefixes: EXTENDED_ARGs; a call's keyword names and PRECALL; TO_BOOL before a
/// test of truth.
struct Decoded {
  int32_t offset;           // code unit where it starts: the only place to resume at
  int32_t at;               // the frame's code unit while it runs
  int32_t next;             // code unit after its inline caches
  int32_t target = -1;      // code unit of a jump's destination
  int32_t names = -1;       // keyword names of a call: index into co_consts
  int32_t inner = -1;       // start of the test of truth, if TO_BOOL precedes it; jumps may lead there
  uint8_t raw;              // CPython's opcode
  bool wants_bool = false;  // CPython's evaluator expects a bool on top; gramme's own tests the truth of any object
  uint8_t count;            // number of parts: one or two
  std::array<Part, 2> parts;
};
Decoded decode_at(Units units, int unit);

/// The constant that LOAD_COMMON_CONSTANT pushes, borrowed.
PyObject* common_constant(int index);
/// The name of the method that LOAD_SPECIAL looks up, interned.
PyObject* special_name(int index);

}  // namespace gramme::cpython
