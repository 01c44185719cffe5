// Decodes the instruction, calls the function of each of its parts (steps.def), and moves the frame on.
#include "cpython/concrete.h"

#include <array>
#include <cstring>

#include "cpython/steps.h"

namespace gramme::cpython {
namespace {

using opcode::Op;

/// The function of each instruction; null if CPython must run it.
constexpr auto kSteps = [] {
  std::array<Outcome (*)(Step&), opcode::kCount> steps{};
#define STEP(op, function) steps[static_cast<size_t>(Op::op)] = function;
#include "cpython/steps.def"
#undef STEP
  return steps;
}();

Outcome carry_out(Step& s) {
  Outcome outcome = Outcome::HandOver;
  for (int i = 0; i < s.decoded.count; ++i) {
    const Part& part = s.decoded.parts[static_cast<size_t>(i)];
    const auto function = kSteps[static_cast<size_t>(part.op)];
    s.arg = part.arg;
    outcome = function ? function(s) : Outcome::HandOver;
    if (outcome != Outcome::Next) break;
  }
  return outcome;
}

/// Converts a comparison's result to a bool if the next instruction of the evaluator expects one.
Outcome make_bool(Step& s, Units units) {
  const bool compared = s.decoded.parts[0].op == Op::COMPARE_OP && s.decoded.count == 1;
  if (!kStack.strict_bool || !compared || !decode_at(units, s.next).wants_bool) return Outcome::Next;
  return to_bool(s);
}

}  // namespace

StepResult step(PyThreadState* thread, LiveFrame frame, const CallHook* hook, const bool* taken_over) {
  const int start = frame.next();
  Owned<> keeps;
  const Units units = steppable_units(frame.code(), &keeps);
  Step s{thread, frame, hook, taken_over, decode_at(units, start), 0, 0};
  s.next = s.decoded.next;
  frame.set_current(s.decoded.at);
  s.result.raised_at = s.decoded.at;
  s.result.outcome = carry_out(s);
  if (s.result.outcome == Outcome::Next) s.result.outcome = make_bool(s, units);
  if (s.result.outcome == Outcome::Next) frame.set_next(s.next);
  if (s.result.outcome == Outcome::HandOver) frame.set_next(start);
  return s.result;
}

bool leave_instruction(PyThreadState* thread, LiveFrame frame, const StepResult& raised) {
  if (raised.traceback) add_traceback(thread, frame);
  return unwind(frame, raised.raised_at);
}

bool can_step(const char* name) {
  for (int i = 0; i < opcode::kCount; ++i)
    if (!std::strcmp(opcode::kRows[i].name, name)) return kSteps[static_cast<size_t>(i)] != nullptr;
  return false;
}

}  // namespace gramme::cpython
