#include "runtime/call.h"

#include "cpython/evaluator.h"
#include "cpython/objects.h"
#include "runtime/chain.h"

namespace gramme::runtime {
namespace {

/// C++ exceptions end here: Python must not see them.
template <class Body>
PyObject* guarded(Body body) noexcept {
  try {
    return body();
  } catch (const PythonError&) {
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_SystemError, error.what());
  }
  return nullptr;
}

PyObject* run_frame(void* context, PyThreadState* thread, cpython::LiveFrame frame) {
  const auto& family = *static_cast<const std::shared_ptr<Family>*>(context);
  return guarded([&] { return Chain(family, thread, frame).run(); });
}

bool runs_plainly(PyThreadState* thread, PyFunctionObject* function) {
  constexpr int kSuspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
  return capturing() || cpython::tracing_active(thread) || (cpython::code_of(function)->co_flags & kSuspends);
}

enum class Answer : uint8_t { Given, NoSegment, Refused };

/// The value of a segment that starts at the function's start and returns. Refused: the arguments do not fit, or the
/// graph raised.
Answer answer(Family& family, ResumePoint& start, const plan::Roots& roots, PyObject** result) {
  for (size_t i = 0; i < start.segments.size(); ++i) {
    if (start.segments[i]->exit.kind != plan::ExitKind::Return) continue;
    SegmentRun run(start.segments[i]);
    if (!run.check(roots)) continue;
    start.hit(i);
    ++family.counters.frameless;
    const GraphResult graph = run.graph();
    if (graph == GraphResult::Failed) return ++family.counters.graph_errors, Answer::Refused;
    *result = nullptr;
    if (graph == GraphResult::Done && run.replay()) *result = Py_NewRef(run.value(run.segment().exit.result));
    return Answer::Given;
  }
  return Answer::NoSegment;
}

[[gnu::cold]] PyObject* call_plainly(Family& family, PyFunctionObject* function, PyObject* const* args, size_t nargsf,
                                     PyObject* kwnames) {
  ++family.counters.plain;
  return PyObject_Vectorcall(reinterpret_cast<PyObject*>(function), args, nargsf, kwnames);
}

[[gnu::hot]] PyObject* call_compiled(const std::shared_ptr<Family>& family, PyFunctionObject* function,
                                     PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  PyThreadState* thread = PyThreadState_Get();
  ++family->counters.calls;
  if (runs_plainly(thread, function)) return call_plainly(*family, function, args, nargsf, kwnames);
  CodeTable& table = *family->table(cpython::code_of(function));
  PyObject* handled = cpython::handled_exception(thread);
  ResumePoint& start = table.point(0, handled != nullptr);
  if (start.returning) {
    BoundArguments bound(table.code()->co_nlocalsplus);
    if (!table.binder.bind(function, args, PyVectorcall_NARGS(nargsf), kwnames, bound))
      return call_plainly(*family, function, args, nargsf, kwnames);
    PyObject* result;
    switch (answer(*family, start, {bound.locals(), nullptr, function, handled}, &result)) {
      case Answer::Given:
        return result;
      case Answer::Refused:
        return call_plainly(*family, function, args, nargsf, kwnames);
      case Answer::NoSegment:
        break;
    }
  }
  std::shared_ptr<Family> keep = family;
  const uint64_t captures = keep->counters.captures;
  PyObject* result = cpython::call_with_frame(thread, function, args, nargsf, kwnames, run_frame, &keep);
  if (keep->counters.captures == captures) ++keep->counters.chained;
  return result;
}

}  // namespace

[[gnu::hot]] PyObject* call(const std::shared_ptr<Family>& family, PyFunctionObject* function, PyObject* const* args,
                            size_t nargsf, PyObject* kwnames) noexcept {
  return guarded([&] { return call_compiled(family, function, args, nargsf, kwnames); });
}

}  // namespace gramme::runtime
