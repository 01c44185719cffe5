// A code object's exception table, and data that gramme keeps with it. Instructions are in cpython/units.h and
// encoding.h.
#pragma once
#include <Python.h>

#include <cstdint>

#include "cpython/units.h"

namespace gramme::cpython {

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

/// One pointer kept with each code object and destroyed with it. Reading it takes some 5 ns.
void* code_data(PyCodeObject* code);
/// False if there is no memory; `data` then still belongs to the caller.
bool set_code_data(PyCodeObject* code, void* data, void (*destroy)(void*));

/// A number kept with a code object: 0 until it is set, or if there was no memory. Reading it takes 5 ns.
uintptr_t code_note(PyCodeObject* code);
void set_code_note(PyCodeObject* code, uintptr_t note);

/// Bytes kept with a code object and destroyed with it: null until they are set, or if there was no memory.
const char* code_digest(PyCodeObject* code);
void set_code_digest(PyCodeObject* code, const char* bytes, size_t size);

}  // namespace gramme::cpython
