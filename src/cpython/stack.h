// Where on the stack the running CPython keeps what instructions work with.
#pragma once
#include "cpython/features.h"

namespace gramme::cpython {

/// Where a version keeps what an instruction works with.
struct Stack {
  bool null_above;     // the NULL beside a callable that is no method lies above it, else below
  bool with_pair;      // what `with` calls at its end lies there as function and self or NULL, else as one object
  bool iterator_pair;  // loops have an iterator and NULL, or list or tuple and a tagged integer, else an iterator
  bool strict_bool;    // jumps take the top item for a bool, else they ask for its truth
};
inline constexpr Stack kStack = {
#define STACK(what, value) .what = value,
#include "cpython/opcodes/rows.inc"
};

}  // namespace gramme::cpython
