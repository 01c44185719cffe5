// From what a recording found to a tape that can be run.
#pragma once
#include <memory>

#include "native/place.h"
#include "native/recorder.h"

namespace gramme::native {

struct Assembly {
  std::shared_ptr<const Program> program;
  std::vector<Instruction> instructions;  // operators are not bound yet
  std::vector<Place> places;              // by value
  const Recorder& recorder;
  int32_t objects, modes;
  bool below_autograd;
};

/// Chooses how each operator is called, replaces what can be had cheaper, gives registers their final numbers, frees
/// each after its last use, binds.
std::unique_ptr<Tape> assemble(Assembly assembly);

}  // namespace gramme::native
