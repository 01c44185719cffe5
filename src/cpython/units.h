// The code units of a code object.
#pragma once
#include <Python.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/ref.h"
#include "cpython/features.h"

namespace gramme::cpython {

/// One code unit as compiled, with specialised instructions mapped back.
struct RawUnit {
  uint8_t opcode;
  uint8_t arg;
};
/// For each opcode: the opcode that it specialises, and the units of its inline cache.
struct Encoding {
  std::array<uint8_t, 256> unspecialised, caches;
};
extern const Encoding kEncoding;

/// The code units of a code object, as they are now or as compiled.
struct Units {
  const uint8_t* words;
  int count;
  RawUnit operator[](int unit) const {
    const uint8_t* word = words + 2 * static_cast<ptrdiff_t>(unit);
    return {kEncoding.unspecialised[word[0]], word[1]};
  }
};
/// The units that the evaluator runs. If a tool or a debugger observes the code, some hold instrumented instructions,
/// which decode as UNREACHED.
inline Units units_of(PyCodeObject* code) {
  return {reinterpret_cast<const uint8_t*>(code->co_code_adaptive), static_cast<int>(Py_SIZE(code))};
}
/// The units as compiled, even for observed code; `keeps` owns them.
Units compiled_units(PyCodeObject* code, Owned<>* keeps);
/// The same, without a copy if no tool has ever observed this code. When tools are gone, the evaluator removes their
/// instructions only when it begins a frame of this code, so frames that gramme begins can still find them.
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
/// CPython's name of an opcode as compiled; null if no opcode has that number.
const char* opcode_name(uint8_t opcode);

}  // namespace gramme::cpython
