// Runs the first instructions of a live frame in C++ and leaves the rest to CPython, as segments of gramme do.
#pragma once
#include "cpython/frame.h"

namespace frames {

/// What of the stack is a reference of the frame's own.
enum class Holds : uint8_t {
  All,         // every slot, which is written anew before each instruction
  AsCompiled,  // what CPython's compiler loads without one stays so
};

/// How CPython functions are called by an instruction that is carried out here.
enum class Calls : uint8_t {
  Vectorcall,  // the caller's stack holds the arguments until they return
  Moved,       // the frame that begins takes them over, as where the evaluator calls
};

struct Rules {
  int steps;  // instructions before CPython goes on
  Holds holds;
  Calls calls;
  bool aware;  // CPython goes on, or runs all of it, where somebody watches
};

struct Counts {
  long stepped = 0, handed_over = 0, longest = 0;
  long unknown[256] = {};  // by opcode: handed over since it is not carried out here
};
extern Counts counts;

/// In the evaluator's place. A new reference, or null with an exception set; the frame is cleared.
PyObject* run(PyThreadState* thread, gramme::cpython::LiveFrame frame, const Rules& rules, int throwing);

}  // namespace frames
