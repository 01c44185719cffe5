// Kernels of fused instructions, by operation and type.
#pragma once
#include <c10/core/Scalar.h>

#include "native/fused.h"

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
  And,  // of bits, or of truths
  Or,
  Xor,
  Negative,
  Absolute,
  Not,     // of truths
  Choose,  // in[0] is a truth
};

using KernelRun = void (*)(const Kernel&, char* const*);

/// The kernel that computes in that type; comparisons give truths. Null if there is none.
KernelRun kernel_of(Operation operation, c10::ScalarType type);
/// The kernel that copies elements, converted; null if there is none, or if some values have no fixed result.
KernelRun mover(c10::ScalarType to, c10::ScalarType from);
/// Sums elements of in[0], each block of `in[1].offset` to one element of the result.
KernelRun summer(c10::ScalarType from);
/// The place in its block of the first one of the largest, or smallest, elements.
KernelRun first_finder(c10::ScalarType from, bool largest);
/// Writes the number as an element of that type; false if it is none.
bool put_literal(const c10::Scalar& number, c10::ScalarType type, char* place);

}  // namespace gramme::native
