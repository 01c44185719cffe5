// From what a recording found to a tape that can be run.
#pragma once
#include <memory>

#include "native/place.h"
#include "native/recorder.h"

namespace gramme::native {

struct Assembly {
  std::shared_ptr<const Program> program;
  std::vector<Instruction> instructions;  // operators are not bound yet
  std::vector<Place> inputs;              // by input of the program
  Place output;
  const Recorder& recorder;
  int32_t objects, modes;
  bool below_autograd;
  std::vector<Register> kept = {};   // beside the output, for the caller; kNone stays kNone
  std::vector<Register> shown = {};  // of kept: others may look at their bases and version counters
  bool counts_inside = true;         // may someone look at the version counters of what does not leave?
  bool fuses = false;                // may elementwise operators be computed together?
  bool drops_inputs = false;         // the frame owns the inputs: they are freed after their last use, too
};

/// Chooses how each operator is called, replaces what can be had cheaper, gives registers their final numbers, frees
/// each after its last use, binds.
std::unique_ptr<Tape> assemble(Assembly assembly);
/// Keys of a plain tensor on the CPU that autograd may record.
c10::DispatchKeySet plain_keys();

}  // namespace gramme::native
