// Turns a recording into a tape that can be run.
#pragma once
#include <memory>

#include "record/recorder.h"
#include "tape/place.h"

namespace gramme::native {

struct Assembly {
  std::shared_ptr<const Program> program;
  std::vector<Instruction> instructions;  // operators are not yet bound
  std::vector<Place> inputs;              // by program input
  Place output;
  const Recorder& recorder;
  int32_t objects, modes;
  bool below_autograd;
  bool inference = false;             // in inference mode, where few tensors have version counters
  std::vector<Register> kept = {};    // kept for the caller beside the output; kNone stays kNone
  std::vector<Register> shown = {};   // those of `kept` whose bases and version counters can be observed
  bool counts_inside = true;          // version counters of tensors that stay inside can be observed
  bool fuses = false;                 // elementwise operators may be fused
  bool drops_inputs = false;          // the frame owns the inputs, so they too are freed after their last use
  std::vector<CastInput> casts = {};  // inputs behind the program's
  bool has_casts = false;             // Tape::has_casts
};

/// Chooses how each operator is called, replaces calls by cheaper ones, numbers the registers, frees each after its
/// last use, and binds the instructions.
std::unique_ptr<Tape> assemble(Assembly assembly);
/// The dispatch keys of a plain CPU tensor that autograd may record.
c10::DispatchKeySet plain_keys();

}  // namespace gramme::native
