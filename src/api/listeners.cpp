// Finds out who listens, and builds the events that they get.
#include "api/listeners.h"

#include <nanobind/stl/string.h>

#include "api/describe.h"
#include "api/recording.h"
#include "api/report.h"
#include "base/imported.h"
#include "base/interruption.h"
#include "base/once.h"
#include "base/text.h"
#include "bytecode/code.h"
#include "torch/names.h"

namespace nb = nanobind;

namespace gramme::api {
namespace {

/// True if the handler writes the log for a reader. PyTorch's own exists in every process but writes nothing without a
/// folder, which it notices only at its first entry. pytest adds handlers of its own to non-propagating loggers during
/// tests.
bool writes(PyObject* handler) {
  const Owned<> module = take(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(handler)), "__module__"));
  if (PyUnicode_Check(module.get()) && utf8_of(module.get()) == "_pytest.logging") return false;
  if (reinterpret_cast<PyObject*>(Py_TYPE(handler)) != of_torch::object(of_torch::TraceLogHandler)) return true;
  PyObject* const name = once([] { return PyUnicode_InternFromString("root_dir"); });
  return take(PyObject_GetAttr(handler, name)).get() != Py_None;
}

bool log_is_written() {
  PyObject* const name = once([] { return PyUnicode_InternFromString("handlers"); });
  const Owned<> handlers = take(PyObject_GetAttr(of_torch::object(of_torch::TraceLog), name));
  for (Py_ssize_t i = 0; PyList_Check(handlers.get()) && i < PyList_GET_SIZE(handlers.get()); ++i)
    if (writes(PyList_GET_ITEM(handlers.get(), i))) return true;
  return false;
}

void call(PyObject* listener, const char* method, const nb::dict& event) {
  const Owned<> function = take(PyObject_GetAttrString(listener, method)), none = take(PyTuple_New(0));
  take(PyObject_Call(function.get(), none.get(), event.ptr()));
}

/// The frame's position, as fields of an event.
nb::dict place(const runtime::FrameView& frame, const plan::CompileId& id) {
  nb::dict event;
  event["code"] = nb::borrow(reinterpret_cast<PyObject*>(frame.code));
  event["line"] = bytecode::decode(frame.code).line(frame.offset);
  event["first"] = nb::borrow(first_of(frame));
  event["compile_id"] = as_tuple(id);
  return event;
}

}  // namespace

bool has_log() {
  bool written = false;
  apart_or_throw([&] { written = log_is_written(); });
  return written;
}

bool has_listeners() { return listener() || has_log(); }

void tell(const char* method, const nb::dict& event) {
  if (const Owned<> recording = share(listener())) call(recording.get(), method, event);
  if (has_log()) call(take(import_module("gramme._trace")).get(), method, event);
}

nb::tuple as_tuple(const plan::CompileId& id) { return nb::make_tuple(id.frame, id.recompile); }

/// The arguments of _words.Change.
nb::tuple as_tuple(const Mismatch& why) { return nb::make_tuple(why.kind_name(), why.subject, why.text, why.hint()); }

void tell_recompile(const runtime::FrameView& frame, const std::vector<runtime::Missed>& missed,
                    const plan::CompileId& id) {
  apart_or_throw([&] {
    nb::list reasons;
    for (const runtime::Missed& each : missed) reasons.append(nb::make_tuple(as_tuple(each.id), as_tuple(each.why)));
    nb::dict event = place(frame, id);
    event["reasons"] = reasons;
    tell("recompiling", event);
  });
}

void tell_shared(const runtime::FrameView& frame, plan::Segment& segment) {
  apart_or_throw([&] {
    nb::dict event = place(frame, segment.compile_id);
    if (listener()) {
      segment.recorded = runtime::Recording::give_number();
      event["start"] = seconds_recorded();
    }
    event["number"] = segment.recorded;
    event["row"] = describe(frame.code, segment);
    tell("shared", event);
  });
}

void tell_limit(const runtime::FrameView& frame, int limit, const Mismatch& reason, const plan::CompileId& id) {
  apart_or_throw([&] {
    nb::dict event = place(frame, id);
    event["limit"] = limit;
    event["reason"] = as_tuple(reason);
    tell("limit", event);
  });
}

}  // namespace gramme::api
