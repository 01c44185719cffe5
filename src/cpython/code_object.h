// What bytecode needs to know of a code object's encoding, and a place to keep things with a code object.
#pragma once
#include <Python.h>

#include <array>
#include <cstddef>
#include <cstdint>

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

inline RawUnit raw_unit(PyCodeObject* code, int unit) {
  const uint8_t* word = reinterpret_cast<const uint8_t*>(code->co_code_adaptive) + 2 * static_cast<ptrdiff_t>(unit);
  return {kEncoding.unspecialised[word[0]], word[1]};
}
/// Number of code units.
int unit_count(PyCodeObject* code);
/// Inline cache units that follow an instruction.
inline int cache_units(uint8_t opcode) { return kEncoding.caches[opcode]; }
/// CPython's name of an opcode as compiled, or null if there is none of that number.
const char* opcode_name(uint8_t opcode);

/// Entries of the exception table, in order of `start`, not overlapping. Offsets in code units.
class ExceptionTable {
 public:
  struct Entry {
    int start, end;  // [start, end)
    int target;
    int depth;   // stack depth to pop to
    bool lasti;  // push the raising instruction's index first
  };
  explicit ExceptionTable(PyCodeObject* code);
  /// False at the end.
  bool next(Entry* entry);

 private:
  int varint();
  const uint8_t *at_, *end_;
};
/// The entry that covers code unit `unit`.
bool find_handler(PyCodeObject* code, int unit, ExceptionTable::Entry* found);

/// One pointer of gramme's own per code object, destroyed with it. get is some 5 ns.
void* code_data(PyCodeObject* code);
/// False if there was no memory: `data` then stays the caller's.
bool set_code_data(PyCodeObject* code, void* data, void (*destroy)(void*));

/// A number kept with a code object: 0 until it is set, and if there was no memory. 5 ns.
uintptr_t code_note(PyCodeObject* code);
void set_code_note(PyCodeObject* code, uintptr_t note);

}  // namespace gramme::cpython
