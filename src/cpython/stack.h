// How versions of CPython differ in the order and form of operands on the value stack.
#pragma once
#include "cpython/features.h"

namespace gramme::cpython {

/// The stack layout of the running version.
struct Stack {
  bool null_above;     // the NULL beside a callable that is no method is above it, else below
  bool with_pair;      // the __exit__ of `with` is stored as function and self or NULL, else as one object
  bool iterator_pair;  // loops store an iterator and NULL, or a list or tuple and a tagged integer; else an iterator
  bool strict_bool;    // jumps expect a bool on top, else they test any object's truth
};
inline constexpr Stack kStack = {
#define STACK(what, value) .what = value,
#include "cpython/opcodes/rows.inc"
};

}  // namespace gramme::cpython
