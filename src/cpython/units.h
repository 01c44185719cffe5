// How a code object is encoded: its units.
#pragma once
#include <Python.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/ref.h"
#include "cpython/features.h"

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
/// The same, for nothing where nobody has ever watched this code. The evaluator puts the instructions of tools that are
/// gone back where a frame begins in it; frames that begin elsewhere still find them.
inline Units steppable_units(PyCodeObject* code, Owned<>* keeps) {
#if GRAMME_PYTHON_MONITORING
  if (code->_co_monitoring) [[unlikely]]
    return compiled_units(code, keeps);
#endif
  static_cast<void>(keeps);
  return units_of(code);
}

inline RawUnit raw_unit(PyCodeObject* code, int unit) { return units_of(code)[unit]; }
/// Number of code units.
inline int unit_count(PyCodeObject* code) { return static_cast<int>(Py_SIZE(code)); }
/// Inline cache units that follow an instruction.
inline int cache_units(uint8_t opcode) { return kEncoding.caches[opcode]; }
/// CPython's name of an opcode as compiled, or null if there is none of that number.
const char* opcode_name(uint8_t opcode);

}  // namespace gramme::cpython
