#include "stepper.h"

#include <algorithm>
#include <vector>

#include "base/ref.h"
#include "cpython/concrete.h"
#include "cpython/encoding.h"

namespace frames {

using namespace gramme::cpython;

Counts counts;

namespace {

/// As the end of a segment does: each slot gets what it has, as a reference of its own.
void write_anew(LiveFrame frame) {
  frame.make_safe();
  std::vector<gramme::Owned<>> items;
  for (int slot = 0; slot < frame.local_count(); ++slot)
    items.push_back(gramme::Owned<>::steal(frame.exchange_local(slot, Py_XNewRef(frame.local(slot)))));
  const size_t below = items.size();
  while (frame.depth() > 0) items.push_back(gramme::Owned<>::steal(frame.pop()));
  for (size_t i = items.size(); i > below; --i) frame.push(Py_XNewRef(items[i - 1].get()));
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
  for (int n = 1; n <= rules.steps; ++n) {
    if (rules.holds == Holds::All) write_anew(frame);
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
  if (rules.holds == Holds::All) write_anew(frame);
  return linked.evaluate();
}

}  // namespace frames
