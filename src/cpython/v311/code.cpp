#include <opcode.h>

#include <array>
#include <initializer_list>

#include "cpython/code_object.h"
#include "cpython/v311/internal.h"

namespace gramme::cpython {
namespace {

struct Table {
  Encoding encoding{};
  std::array<const char*, 256> names{};

  constexpr void add(const char* name, uint8_t opcode, uint8_t cache_units, std::initializer_list<uint8_t> forms) {
    names[opcode] = name;
    encoding.caches[opcode] = cache_units;
    encoding.unspecialised[opcode] = opcode;
    for (uint8_t form : forms) encoding.unspecialised[form] = opcode;
  }
};

constexpr Table kTable = [] {
  Table table;
#define RAW(name, cache_units, ...) table.add(#name, name, cache_units, {__VA_ARGS__});
#include "cpython/opcodes/311.def"
#undef RAW
  return table;
}();

/// What is stored with a code object: the destroy function comes first because CPython frees with one function for all.
struct Stored {
  void (*destroy)(void*);
  void* data;
};

void destroy_stored(void* pointer) {
  if (!pointer) return;  // CPython frees what was never stored too, if another user of co_extra stored something
  auto* stored = static_cast<Stored*>(pointer);
  stored->destroy(stored->data);
  delete stored;
}

Py_ssize_t extra_index() {
  // no Python: a count in the interpreter
  static const Py_ssize_t index = _PyEval_RequestCodeExtraIndex(destroy_stored);
  return index;
}

Py_ssize_t note_index() {
  // no Python: a count in the interpreter
  static const Py_ssize_t index = _PyEval_RequestCodeExtraIndex(nullptr);
  return index;
}

}  // namespace

constexpr Encoding kEncoding = kTable.encoding;

int unit_count(PyCodeObject* code) { return static_cast<int>(Py_SIZE(code)); }

const char* opcode_name(uint8_t opcode) { return kTable.names[opcode]; }

void* code_data(PyCodeObject* code) {
  void* pointer = nullptr;
  if (_PyCode_GetExtra(reinterpret_cast<PyObject*>(code), extra_index(), &pointer) < 0 || !pointer) return nullptr;
  return static_cast<Stored*>(pointer)->data;
}

bool set_code_data(PyCodeObject* code, void* data, void (*destroy)(void*)) {
  auto* stored = new Stored{destroy, data};
  if (_PyCode_SetExtra(reinterpret_cast<PyObject*>(code), extra_index(), stored) == 0) return true;
  PyErr_Clear();
  delete stored;
  return false;
}

uintptr_t code_note(PyCodeObject* code) {
  void* note = nullptr;
  return _PyCode_GetExtra(reinterpret_cast<PyObject*>(code), note_index(), &note) < 0
             ? 0
             : reinterpret_cast<uintptr_t>(note);
}

void set_code_note(PyCodeObject* code, uintptr_t note) {
  if (_PyCode_SetExtra(reinterpret_cast<PyObject*>(code), note_index(), reinterpret_cast<void*>(note)) < 0)
    PyErr_Clear();
}

}  // namespace gramme::cpython
