// Decodes the exception table, and stores gramme's data in a code object's extra slots: one index for each kind of
// data.
#include "cpython/code_object.h"

#include <cstdlib>
#include <cstring>

#include "cpython/features.h"

namespace gramme::cpython {
namespace {

#if GRAMME_PYTHON_UNSTABLE_CODE_EXTRA
Py_ssize_t request_index(freefunc destroy) { return PyUnstable_Eval_RequestCodeExtraIndex(destroy); }
int get_extra(PyCodeObject* code, Py_ssize_t index, void** data) {
  return PyUnstable_Code_GetExtra(reinterpret_cast<PyObject*>(code), index, data);
}
int set_extra(PyCodeObject* code, Py_ssize_t index, void* data) {
  return PyUnstable_Code_SetExtra(reinterpret_cast<PyObject*>(code), index, data);
}
#else
Py_ssize_t request_index(freefunc destroy) { return _PyEval_RequestCodeExtraIndex(destroy); }
int get_extra(PyCodeObject* code, Py_ssize_t index, void** data) {
  return _PyCode_GetExtra(reinterpret_cast<PyObject*>(code), index, data);
}
int set_extra(PyCodeObject* code, Py_ssize_t index, void* data) {
  return _PyCode_SetExtra(reinterpret_cast<PyObject*>(code), index, data);
}
#endif

/// Data kept with a code object and the function that destroys it: CPython itself has one destroy function for all.
struct Stored {
  void (*destroy)(void*);
  void* data;
};

void destroy_stored(void* pointer) {
  if (!pointer) return;  // CPython also calls it for slots never set, if another user of co_extra stored something
  auto* stored = static_cast<Stored*>(pointer);
  stored->destroy(stored->data);
  delete stored;
}

Py_ssize_t extra_index() {
  // no Python: a count in the interpreter
  static const Py_ssize_t index = request_index(destroy_stored);
  return index;
}

Py_ssize_t note_index() {
  // no Python: a count in the interpreter
  static const Py_ssize_t index = request_index(nullptr);
  return index;
}

Py_ssize_t digest_index() {
  // no Python: a count in the interpreter
  static const Py_ssize_t index = request_index(std::free);
  return index;
}

}  // namespace

ExceptionTable::ExceptionTable(PyCodeObject* code)
    : at_(reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(code->co_exceptiontable))),
      end_(at_ + PyBytes_GET_SIZE(code->co_exceptiontable)) {}

int ExceptionTable::varint() {
  int value = *at_ & 63;
  while (*at_++ & 64) value = value << 6 | (*at_ & 63);
  return value;
}

bool ExceptionTable::next(Entry* entry) {
  if (at_ >= end_) return false;
  entry->start = varint();
  entry->end = entry->start + varint();
  entry->target = varint();
  int depth_and_lasti = varint();
  entry->depth = depth_and_lasti >> 1;
  entry->lasti = depth_and_lasti & 1;
  return true;
}

bool find_handler(PyCodeObject* code, int unit, ExceptionTable::Entry* found) {
  ExceptionTable table(code);
  while (table.next(found)) {
    if (found->start > unit) return false;
    if (unit < found->end) return true;
  }
  return false;
}

void* code_data(PyCodeObject* code) {
  void* pointer = nullptr;
  if (get_extra(code, extra_index(), &pointer) < 0 || !pointer) return nullptr;
  return static_cast<Stored*>(pointer)->data;
}

bool set_code_data(PyCodeObject* code, void* data, void (*destroy)(void*)) {
  auto* stored = new Stored{destroy, data};
  if (set_extra(code, extra_index(), stored) == 0) return true;
  PyErr_Clear();
  delete stored;
  return false;
}

uintptr_t code_note(PyCodeObject* code) {
  void* note = nullptr;
  return get_extra(code, note_index(), &note) < 0 ? 0 : reinterpret_cast<uintptr_t>(note);
}

void set_code_note(PyCodeObject* code, uintptr_t note) {
  if (set_extra(code, note_index(), reinterpret_cast<void*>(note)) < 0) PyErr_Clear();
}

const char* code_digest(PyCodeObject* code) {
  void* bytes = nullptr;
  return get_extra(code, digest_index(), &bytes) < 0 ? nullptr : static_cast<const char*>(bytes);
}

void set_code_digest(PyCodeObject* code, const char* bytes, size_t size) {
  void* kept = std::malloc(size);
  if (!kept) return;
  std::memcpy(kept, bytes, size);
  if (set_extra(code, digest_index(), kept) == 0) return;
  PyErr_Clear();
  std::free(kept);
}

}  // namespace gramme::cpython
