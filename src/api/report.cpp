// Writes to the loggers and counters of PyTorch, and makes the events of listeners.
#include "api/report.h"

#include "api/describe.h"
#include "api/listeners.h"
#include "backend/captured.h"
#include "backend/metadata.h"
#include "base/imported.h"
#include "base/interruption.h"
#include "base/once.h"
#include "bytecode/code.h"
#include "torch/names.h"

namespace nb = nanobind;

namespace gramme::api {
namespace {

Owned<> attribute(PyObject* object, const char* name) { return take(PyObject_GetAttrString(object, name)); }

/// The module gramme._logging.
PyObject* logging_module() {
  PyObject* const module = once([] { return take(import_module("gramme._logging")).release(); });
  return module;
}

/// A logger that users enable by name in TORCH_LOGS.
class Artifact {
 public:
  /// `level` is that of its messages.
  explicit Artifact(const char* name, int level = 10)
      : level_(take(PyLong_FromLong(level))),
        logger_(share(PyDict_GetItemString(attribute(logging_module(), "LOGGERS").get(), name))),
        cache_(attribute(logger_.get(), "_cache")) {}

  /// Reads the logger's cache of levels, which the logging module clears when a level changes.
  bool on() const {
    if (PyDict_GetItem(cache_.get(), level_.get()) == Py_False) return false;
    Owned<> answer = take(PyObject_CallMethod(logger_.get(), "isEnabledFor", "O", level_.get()));
    return answer.get() == Py_True;
  }

 private:
  Owned<> level_, logger_, cache_;
};

struct Artifacts {
  Artifact graph{"graph"}, graph_code{"graph_code"}, graph_sizes{"graph_sizes"}, guards{"guards"},
      recompiles{"recompiles"}, recompiles_verbose{"recompiles_verbose"}, graph_breaks{"graph_breaks"},
      trace_call{"trace_call"}, trace_source{"trace_source"}, bytecode{"bytecode"}, dynamic{"dynamic", 20};
  static const Artifacts& get() {
    const auto* all = once([] { return new Artifacts; });
    return *all;
  }
};

Owned<> text(const std::string& string) {
  return take(PyUnicode_DecodeUTF8(string.data(), static_cast<Py_ssize_t>(string.size()), "replace"));
}

Owned<> texts(const std::vector<std::string>& strings) {
  Owned<> list = take(PyList_New(0));
  for (const std::string& string : strings) check(PyList_Append(list.get(), text(string).get()));
  return list;
}

}  // namespace

bool is_told(const plan::Segment& segment) {
  return segment.start != 0 && segment.exit.kind == plan::ExitKind::Concrete && segment.exit.offset == segment.start &&
         segment.operations == 0 && segment.replay.ops.empty();
}

namespace {

/// torch._dynamo.utils; null while it is not imported.
Owned<> dynamo_utils() { return share(of_torch::if_loaded(of_torch::DynamoUtils)); }

void add(const Owned<>& counters, const char* category, const Owned<>& key, int number) {
  Owned<> counter = take(PyObject_GetItem(counters.get(), text(category).get()));
  PyObject* before = PyDict_GetItemWithError(counter.get(), key.get());
  if (!before && PyErr_Occurred()) throw PythonError();
  Owned<> by = take(PyLong_FromLong(number)), now = before ? take(PyNumber_Add(before, by.get())) : by;
  check(PyDict_SetItem(counter.get(), key.get(), now.get()));
}

void add_time(const Owned<>& metrics, const char* key, double seconds) {
  Owned<> none = take(PyList_New(0));
  PyObject* times = PyDict_SetDefault(metrics.get(), text(key).get(), none.get());
  if (!times) throw PythonError();
  check(PyList_Append(times, take(PyFloat_FromDouble(seconds)).get()));
}

}  // namespace

PyObject* first_of(const runtime::FrameView& frame) {
  return frame.local_count && frame.locals[0] ? frame.locals[0] : Py_None;
}

Report::Report(const runtime::FrameView& frame, CompileIds& ids)
    : ids_(&ids),
      code_(frame.code),
      first_(first_of(frame)),
      line_(bytecode::decode(frame.code).line(frame.offset)),
      start_(Clock::now()),
      logged_(has_log()) {}

bool Report::is_heard() const { return logged_ || listener(); }

const plan::CompileId& Report::id() {
  if (!id_.given()) id_ = ids_->take();
  return id_;
}

bool Report::shows_graphs() const { return is_heard() || logs_graphs(); }

bool Report::logs_graphs() {
  bool shown = false;
  apart_or_throw([&] {
    const Artifacts& artifacts = Artifacts::get();
    shown =
        artifacts.graph.on() || artifacts.graph_code.on() || artifacts.graph_sizes.on() || artifacts.trace_call.on();
  });
  return shown;
}

trace::LineListener* Report::begin() {
  apart_or_throw([&] {
    const Artifacts& artifacts = Artifacts::get();
    logs_lines_ = artifacts.trace_source.on();
    if (artifacts.bytecode.on()) take(PyObject_CallMethod(logging_module(), "bytecode", "O", code_));
  });
  return logs_lines_ || listener() ? this : nullptr;
}

void Report::begins() { recorded_.begins(); }

void Report::comes_to(PyCodeObject* code, int line, int depth) {
  if (listener()) recorded_.comes_to(code, line, depth);
  if (logs_lines_) take(PyObject_CallMethod(logging_module(), "line", "Oii", code, line, depth));
}

void Report::graph(const Owned<>& module, PyObject* captured) {
  apart_or_throw([&] {
    if (!module) return;
    const runtime::Span not_the_captures;
    if (is_heard()) {
      nb::dict event = this->event();
      event["module"] = nb::borrow(module.get());
      event["captured"] = nb::borrow(captured);
      tell("graph", event);
    }
    if (logs_graphs()) take(PyObject_CallMethod(logging_module(), "graph", "OO", module.get(), captured));
  });
  graph_ready_ = Clock::now();
}

void Report::compiled(int operations) {
  backend_seconds_ = std::chrono::duration<double>(Clock::now() - graph_ready_).count();
  operations_ = operations;
}

void Report::captured(plan::Segment* segment) {
  if (segment && is_told(*segment)) return;
  if (segment) segment->compile_id = id();
  if (is_heard()) apart_or_throw([&] { tell_captured(segment); });
  apart_or_throw([&] { count(segment); });
  if (!segment) return;
  apart_or_throw([&] {
    if (Artifacts::get().guards.on()) log_guards(*segment);
    if (!segment->guards.description().shapes.symbols.empty() && Artifacts::get().dynamic.on()) log_sizes(*segment);
    if (backend::is_break(segment->ending) && Artifacts::get().graph_breaks.on()) log_break(*segment);
  });
}

nb::dict Report::event() {
  nb::dict event;
  event["code"] = nb::borrow(reinterpret_cast<PyObject*>(code_));
  event["line"] = line_;
  event["first"] = nb::borrow(first_);
  event["compile_id"] = as_tuple(id());
  event["elapsed"] = std::chrono::duration<double>(Clock::now() - start_).count();
  return event;
}

void Report::tell_captured(plan::Segment* segment) {
  const Ticks own = span_.end();
  nb::dict event = this->event();
  event["backend_seconds"] = backend_seconds_;
  event["taken"] = taken_.given() ? nb::object(as_tuple(taken_)) : nb::none();
  if (segment && listener()) segment->recorded = runtime::Recording::give_number();
  event["number"] = segment ? segment->recorded : -1;
  event["breaks"] = segment && backend::is_break(segment->ending) ? nb::object(break_row(*segment)) : nb::none();
  event["row"] = segment ? nb::object(describe(code_, *segment)) : nb::none();
  if (listener()) recorded_.add_to(event, span_.start(), own);
  tell("captured", event);
}

void Report::failed() {
  PyObject *type, *error, *traceback;
  PyErr_Fetch(&type, &error, &traceback);
  PyErr_NormalizeException(&type, &error, &traceback);
  const bool told = !error || apart([&] {
    if (!is_heard()) return;
    nb::dict event = this->event();
    event["error"] = nb::borrow(error);
    tell("failed", event);
  });
  if (told) return PyErr_Restore(type, error, traceback);
  const Owned<> dropped[] = {Owned<>::steal(type), Owned<>::steal(error), Owned<>::steal(traceback)};
}

void Report::count(const plan::Segment* segment) const {
  Owned<> utils = dynamo_utils();
  if (!utils) return;
  Owned<> counters = attribute(utils.get(), "counters"), metrics = attribute(utils.get(), "compilation_time_metrics");
  add(counters, "frames", text("total"), 1);
  if (segment) add(counters, "frames", text("ok"), 1);
  if (segment && backend::is_break(segment->ending)) {
    const plan::Ending& ending = segment->ending;
    const Owned<> reason = text(backend::full_reason(ending));
    add(counters, "graph_break", reason, 1);
    take(PyObject_CallFunction(imported("gramme._context", "note_break").get(), "OOiO", reason.get(),
                               text(ending.file).get(), ending.inner_line, text(ending.function).get()));
  }
  add_time(metrics, "_compile.compile_inner", std::chrono::duration<double>(Clock::now() - start_).count());
  if (backend_seconds_ < 0) return;
  add(counters, "stats", text("calls_captured"), operations_);
  add(counters, "stats", text("unique_graphs"), 1);
  add_time(metrics, "OutputGraph.call_user_compiler", backend_seconds_);
}

void Report::log_guards(const plan::Segment& segment) const {
  const std::vector<std::string> conditions = segment.guards.description().print();
  take(PyObject_CallMethod(logging_module(), "guards", "OOOiO", as_tuple(segment.compile_id).ptr(), code_, first_,
                           line_, texts(conditions).get()));
}

void Report::log_sizes(const plan::Segment& segment) const {
  const std::vector<std::string> conditions = segment.guards.description().shapes.print();
  take(PyObject_CallMethod(logging_module(), "sizes", "OOOiOO", as_tuple(segment.compile_id).ptr(), code_, first_,
                           line_, symbol_rows(segment).get(), texts(conditions).get()));
}

Owned<> symbol_rows(const plan::Segment& segment) {
  const guards::ShapeGuards& shapes = segment.guards.description().shapes;
  const std::vector<shape::Range> ranges = shapes.ranges();
  auto bound = [](int64_t value, int64_t none) {
    return value == none ? share(Py_None) : take(PyLong_FromLongLong(value));
  };
  Owned<> rows = take(PyList_New(0));
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (!shapes.symbols[i]) continue;  // the symbol is unbacked
    Owned<> low = bound(ranges[i].low, shape::Range::kNoLow), high = bound(ranges[i].high, shape::Range::kNoHigh);
    Owned<> row = take(PyTuple_Pack(3, text(shapes.symbols[i]->print()).get(), low.get(), high.get()));
    check(PyList_Append(rows.get(), row.get()));
  }
  return rows;
}

/// The arguments of gramme._logging.break_text().
nb::tuple Report::break_row(const plan::Segment& segment) const {
  const plan::Ending& ending = segment.ending;
  PyObject* outermost = ending.stack.empty() ? reinterpret_cast<PyObject*>(code_) : ending.stack.front().first.get();
  return nb::steal<nb::tuple>(
      take(Py_BuildValue("OOiOOO", outermost, text(ending.file).get(), ending.inner_line,
                         text(backend::full_reason(ending)).get(), text(ending.hint).get(), stack_text(ending).get()))
          .release());
}

void Report::log_break(const plan::Segment& segment) const {
  take(PyObject_CallMethod(logging_module(), "graph_break", "OO", as_tuple(segment.compile_id).ptr(),
                           break_row(segment).ptr()));
}

Owned<> stack_text(const plan::Ending& ending) {
  Owned<> stack = take(PyUnicode_New(0, 0));
  for (const auto& [code, unit] : ending.stack) {
    Owned<> frame = backend::frame_text(reinterpret_cast<PyCodeObject*>(code.get()), unit);
    stack = take(PyUnicode_Concat(stack.get(), frame.get()));
  }
  return stack;
}

bool recompiles_are_logged() {
  bool logged = false;
  apart_or_throw([&] { logged = Artifacts::get().recompiles.on() || Artifacts::get().recompiles_verbose.on(); });
  return logged;
}

void log_recompile(const runtime::FrameView& frame, const std::vector<runtime::Missed>& missed,
                   const plan::CompileId& id) {
  apart_or_throw([&] {
    int line = bytecode::decode(frame.code).line(frame.offset);
    std::vector<std::string> reasons;
    for (const runtime::Missed& each : missed) reasons.push_back(each.why.text);
    take(PyObject_CallMethod(logging_module(), "recompile", "OOOiO", as_tuple(id).ptr(), frame.code, first_of(frame),
                             line, texts(reasons).get()));
  });
}

}  // namespace gramme::api
