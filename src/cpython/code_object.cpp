#include "cpython/code_object.h"

namespace gramme::cpython {

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

}  // namespace gramme::cpython
