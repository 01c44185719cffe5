// Tape instructions that change the thread's modes: grad mode, autocast, inference mode.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "tape/tape.h"

namespace gramme::native {

struct ModeCall {
  enum Kind : uint8_t { SetGrad, EnterAutocast, ExitAutocast, EnterInference, ExitInference };
  Kind kind;
  bool on = false;  // SetGrad, EnterInference, EnterAutocast: the mode's value
  bool cached = false;
  c10::DeviceType device = c10::kCPU;
  c10::ScalarType dtype = c10::kFloat;
  int32_t slot = -1;     // index into Run::modes
  ValueId entered = -1;  // Exit…: the value returned by the entering step
};

/// The mode change made by a step that just returned `result`; nullopt if it changes no known mode.
std::optional<ModeCall> mode_call(const Step& step, PyObject* result);
void bind_mode(Instruction& instruction, const ModeCall& call);
std::string print(const ModeCall& call);
const ModeCall& mode_of(const Instruction& instruction);

}  // namespace gramme::native
