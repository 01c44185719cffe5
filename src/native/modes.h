// Instructions of a tape that change modes of the thread: grad mode, autocast, inference mode.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "native/tape.h"

namespace gramme::native {

struct ModeCall {
  enum Kind : uint8_t { SetGrad, EnterAutocast, ExitAutocast, EnterInference, ExitInference };
  Kind kind;
  bool on = false;  // SetGrad, EnterInference, EnterAutocast: enabled
  bool cached = false;
  c10::DeviceType device = c10::kCPU;
  c10::ScalarType dtype = c10::kFloat;
  int32_t slot = -1;     // of Run::modes
  ValueId entered = -1;  // Exit…: the value the entering step gave
};

/// What a step does that has just been carried out with `result`; none if it changes no mode that gramme knows.
std::optional<ModeCall> mode_call(const Step& step, PyObject* result);
void bind_mode(Instruction& instruction, const ModeCall& call);
std::string print(const ModeCall& call);
const ModeCall& mode_of(const Instruction& instruction);

}  // namespace gramme::native
