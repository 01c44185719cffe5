#include "cpython/concrete.h"

#include <opcode.h>

#include <cstring>

#include "cpython/v311/steps.h"

namespace gramme::cpython {
namespace {

/// Reads the next instruction, EXTENDED_ARG folded in; gives its opcode.
uint8_t fetch(Step& s) {
  s.arg = 0;
  for (s.at = s.frame.next();; ++s.at) {
    RawUnit unit = raw_unit(s.frame.code(), s.at);
    s.arg = s.arg << 8 | unit.arg;
    if (unit.opcode == EXTENDED_ARG) continue;
    s.next = s.at + 1 + cache_units(unit.opcode);
    return unit.opcode;
  }
}

Outcome carry_out(Step& s, uint8_t opcode) {
  switch (opcode) {
#define STEP(opcode, function) \
  case opcode:                 \
    return function(s);
#include "cpython/v311/steps.def"
#undef STEP
    default:
      return Outcome::HandOver;
  }
}

}  // namespace

StepResult step(PyThreadState* thread, LiveFrame frame, const CallHook* hook, const bool* taken_over) {
  Step s{thread, frame, hook, taken_over, 0, 0, 0};
  const int start = frame.next();
  const uint8_t opcode = fetch(s);
  frame.set_current(s.at);
  s.result.raised_at = s.at;
  s.result.outcome = carry_out(s, opcode);
  if (s.result.outcome == Outcome::Next) frame.set_next(s.next);
  if (s.result.outcome == Outcome::HandOver) frame.set_next(start);
  return s.result;
}

bool leave_instruction(PyThreadState* thread, LiveFrame frame, const StepResult& raised) {
  if (raised.traceback) add_traceback(thread, frame);
  return unwind(frame, raised.raised_at);
}

bool can_step(const char* name) {
  static constexpr const char* kNames[] = {
#define STEP(opcode, function) #opcode,
#include "cpython/v311/steps.def"
#undef STEP
  };
  for (const char* known : kNames)
    if (!std::strcmp(known, name)) return true;
  return false;
}

}  // namespace gramme::cpython
