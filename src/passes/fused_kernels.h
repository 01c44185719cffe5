// Kernels of fused instructions, by operation and type.
#pragma once
#include <c10/core/Scalar.h>

#include "tape/fused.h"

namespace gramme::native {

enum class Operation : uint8_t {
  Add,
  Subtract,
  Multiply,
  Divide,
  Maximum,
  Minimum,
  Equal,
  NotEqual,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  And,  // bitwise, or logical for bools
  Or,
  Xor,
  Negative,
  Absolute,
  Not,     // logical
  Choose,  // in[0] is the bool condition
};

using KernelRun = void (*)(const Kernel&, char* const*);

/// The kernel that computes in this type (comparisons return bools); null if there is none.
KernelRun kernel_of(Operation operation, c10::ScalarType type);
/// The kernel that copies with conversion; null if there is none, or if the result of some values is undefined.
KernelRun mover(c10::ScalarType to, c10::ScalarType from);
/// Sums each block of `in[1].offset` elements of in[0] to one element of the result.
KernelRun summer(c10::ScalarType from);
/// The index within its block of the first largest or smallest element.
KernelRun first_finder(c10::ScalarType from, bool largest);
/// Writes the number as an element of this type; false if it is not representable.
bool put_literal(const c10::Scalar& number, c10::ScalarType type, char* place);

}  // namespace gramme::native
