// Code objects decoded: their instructions, and which items of the stack CPython's compiler loads without a reference.
#pragma once
#include <map>
#include <vector>

#include "cpython/image.h"

namespace frames {

struct Instruction {
  int opcode, arg;
  int at, next;              // code units: itself, EXTENDED_ARG excluded; behind its caches
  std::vector<int> lenders;  // of the top items before it, the topmost first: the local it was loaded from, or -1
};

/// A code object decoded: by the code unit where an instruction starts.
using Program = std::map<int, Instruction>;
/// Decoded at the first request, kept for the life of the process.
const Program& program_of(PyCodeObject* code);

}  // namespace frames
