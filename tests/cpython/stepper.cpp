#include "stepper.h"

#include <algorithm>

#include "cpython/concrete.h"
#include "cpython/encoding.h"
#include "program.h"

namespace frames {

using namespace gramme::cpython;

Counts counts;

namespace {

/// Items that CPython would have borrowed where the frame stands give their references back.
void lend(LiveFrame frame) {
#if GRAMME_PYTHON_TAGGED_SLOTS
  const Program& program = program_of(frame.code());
  const auto found = program.find(frame.next());
  if (found == program.end()) return;
  const std::vector<int>& lenders = found->second.lenders;
  const int known = std::min(static_cast<int>(lenders.size()), frame.depth());
  for (int n = 1; n <= known; ++n)
    if (const int slot = lenders[n - 1]; slot >= 0) frame.lend_item(n, slot);
#else
  static_cast<void>(frame);
#endif
}

PyObject* call_by_vectorcall(const void*, PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* names) {
  return PyObject_Vectorcall(callable, args, nargsf, names);
}

}  // namespace

PyObject* run(PyThreadState* thread, LiveFrame frame, const Rules& rules, int throwing) {
  if (throwing || (rules.aware && is_observed(thread, frame.code())))
    return _PyEval_EvalFrameDefault(thread, frame.raw(), throwing);
  LinkedFrame linked(thread, frame);
  if (!linked.entered()) return nullptr;
  const CallHook by_vectorcall{call_by_vectorcall, nullptr};
  const bool lends = rules.holds == Holds::AsCompiled;
  for (int n = 1; n <= rules.steps; ++n) {
    if (lends) lend(frame);
    const uint8_t opcode = decode_at(units_of(frame.code()), frame.next()).raw;
    const StepResult result = step(thread, frame, rules.calls == Calls::Vectorcall ? &by_vectorcall : nullptr);
    if (result.outcome == Outcome::HandOver) {
      ++counts.unknown[opcode];
      break;
    }
    ++counts.stepped;
    counts.longest = std::max<long>(counts.longest, n);
    if (result.outcome == Outcome::Returned) return result.value;
    if (result.outcome == Outcome::Raised && !leave_instruction(thread, frame, result)) return nullptr;
    if (rules.aware && linked.tracing()) break;
  }
  ++counts.handed_over;
  if (lends) lend(frame);
  return linked.evaluate();
}

}  // namespace frames
