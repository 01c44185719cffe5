// How a code object is encoded: its units, and what one instruction of the running CPython is in gramme's vocabulary.
#pragma once
#include <Python.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/ref.h"
#include "opcode/op.h"

namespace gramme::cpython {

/// One code unit as it was compiled: specialised instructions are mapped back to what they stand for.
struct RawUnit {
  uint8_t opcode;
  uint8_t arg;
};
/// By opcode: what it specialises, and the units of its inline cache.
struct Encoding {
  std::array<uint8_t, 256> unspecialised, caches;
};
extern const Encoding kEncoding;

/// Code units, as they are now or as they were compiled.
struct Units {
  const uint8_t* words;
  int count;
  RawUnit operator[](int unit) const {
    const uint8_t* word = words + 2 * static_cast<ptrdiff_t>(unit);
    return {kEncoding.unspecialised[word[0]], word[1]};
  }
};
/// Those that the evaluator runs. Where a tool or a debugger watches, some hold its instructions, which are UNREACHED.
inline Units units_of(PyCodeObject* code) {
  return {reinterpret_cast<const uint8_t*>(code->co_code_adaptive), static_cast<int>(Py_SIZE(code))};
}
/// Those that were compiled, whoever watches; `keeps` holds them.
Units compiled_units(PyCodeObject* code, Owned<>* keeps);

inline RawUnit raw_unit(PyCodeObject* code, int unit) { return units_of(code)[unit]; }
/// Number of code units.
inline int unit_count(PyCodeObject* code) { return static_cast<int>(Py_SIZE(code)); }
/// Inline cache units that follow an instruction.
inline int cache_units(uint8_t opcode) { return kEncoding.caches[opcode]; }
/// CPython's name of an opcode as compiled, or null if there is none of that number.
const char* opcode_name(uint8_t opcode);

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
