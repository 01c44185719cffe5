// Whole captures: capture a call, split its replay into what makes objects and what changes the world, run only the
// first, and list the second as changes.
#include "runtime/whole.h"

#include <algorithm>

#include "base/error.h"
#include "base/signals.h"
#include "cpython/objects.h"
#include "plan/made_only.h"
#include "runtime/chain.h"
#include "runtime/run.h"

namespace gramme::runtime {
namespace {

[[noreturn]] void raise(PyObject* type, const char* text) {
  PyErr_SetString(type, text);
  throw PythonError();
}

/// The arguments as the function's frame holds them before its first instruction.
std::vector<PyObject*> locals_of(PyFunctionObject* function, const std::vector<PyObject*>& arguments) {
  PyCodeObject* code = cpython::code_of(function);
  const bool plain = !(code->co_flags & (CO_VARARGS | CO_VARKEYWORDS)) && code->co_kwonlyargcount == 0;
  if (!plain || static_cast<size_t>(code->co_argcount) != arguments.size())
    raise(PyExc_TypeError, "capture_whole: as many arguments as the function has parameters");
  std::vector<PyObject*> locals = arguments;
  locals.resize(static_cast<size_t>(code->co_nlocalsplus), nullptr);
  return locals;
}

class Outcome {
 public:
  Outcome(const SegmentRun& run, const plan::Replay& replay) : run_(run), replay_(replay) {}

  Change change(const plan::ReplayOp& op) const {
    Change result{op.kind, object(op.a), op.object ? share(op.object.get()) : Owned<>(), {}, op.number};
    const bool has_key = op.kind == plan::ReplayKind::StoreDict || op.kind == plan::ReplayKind::DeleteDict;
    if (has_key) result.key = object(op.b);
    if (has_key ? op.c >= 0 : op.b != plan::kNull) result.values.push_back(object(has_key ? op.c : op.b));
    for (int i = 0; i < op.count; ++i)
      result.values.push_back(object(replay_.operands[static_cast<size_t>(op.first + i)]));
    return result;
  }

 private:
  Owned<> object(plan::Register r) const {
    PyObject* found = run_.value(r);
    return found ? share(found) : Owned<>();
  }

  const SegmentRun& run_;
  const plan::Replay& replay_;
};

}  // namespace

Whole capture_whole(PyFunctionObject* function, const std::vector<PyObject*>& arguments, Capturer& capturer) {
  const SignalsHeld held;
  const std::vector<PyObject*> locals = locals_of(function, arguments);
  PyCodeObject* code = cpython::code_of(function);
  FrameView frame{function, code, locals.data(), code->co_nlocalsplus, nullptr, 0, 0, nullptr, nullptr};
  std::shared_ptr<plan::Segment> segment;
  {
    const Capturing scope;
    segment = capturer.capture(frame);
  }
  if (!segment || segment->exit.kind != plan::ExitKind::Return)
    raise(PyExc_RuntimeError, "the function cannot be captured as a whole");
  plan::MadeOnly parts = plan::split(segment->replay, static_cast<int>(segment->guards.object_count()));
  if (!parts.refusal.empty()) raise(PyExc_RuntimeError, parts.refusal.c_str());
  segment->replay = std::move(parts.makes);
  segment->restored.clear();
  segment->random = segment->sets_modes = false;
  SegmentRun run;
  plan::Dropped dropped;
  run.begin(segment);
  if (!run.check({locals.data(), nullptr, function, nullptr}, dropped))
    raise(PyExc_RuntimeError, "what the capture depends on changed meanwhile");
  if (run.graph(nullptr) != GraphResult::Done) {
    if (!PyErr_Occurred()) raise(PyExc_RuntimeError, "the capture's outputs have no stand-ins");
    throw PythonError();
  }
  if (!run.replay()) throw PythonError();
  const Outcome outcome(run, segment->replay);
  Whole whole;
  PyObject* result = run.value(segment->exit.result);
  if (!result) raise(PyExc_RuntimeError, "the function returns what a call with effects returned");
  whole.result = share(result);
  for (const plan::ReplayOp& op : parts.changes) whole.changes.push_back(outcome.change(op));
  return whole;
}

}  // namespace gramme::runtime
