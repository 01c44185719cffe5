// Logging and printing, sys.exc_info, the functions that are run for real; and the list of all
// families.
#include "builtins/builtins.h"
#include "builtins/python_support.h"

namespace gramme::builtins {
namespace {

using value::Function;
using value::Kind;

// ---- printing and logging, as the options of torch's own front end say

/// Is the function in a set of torch._dynamo.config? The module is not imported for it.
bool is_listed(const char* set, PyObject* function) {
  PyObject* config = PyDict_GetItemString(PyImport_GetModuleDict(), "torch._dynamo.config");
  if (!config) return false;
  Owned<> functions = Owned<>::steal(PyObject_GetAttrString(config, set));
  int found = functions ? PySequence_Contains(functions.get(), function) : -1;
  if (found < 0) PyErr_Clear();
  return found > 0;
}

/// A function that only writes text: nothing if it is ignored, called after the graph if it may be moved there.
template <Text module, Text name>
Value* write_text(Trace& trace, const Args& args) {
  static PyObject* const function = real(module.text, name.text);
  if (is_listed("ignore_logging_functions", function)) return trace.none();
  bool movable = !args.keywords && is_listed("reorderable_logging_functions", function);
  if (!movable) cannot(Reason::CallSkipped, name.text);
  trace.effects.add_call(function, all_positional(args), trace.graph.length());
  return trace.none();
}

/// A method of logging.Logger: ignored, or traced like any other; what it writes in the end is run for real.
template <Text name>
Value* log(Trace& trace, const Args& args) {
  static PyObject* const function = real("logging", name.text);
  if (is_listed("ignore_logging_functions", function)) return trace.none();
  if (args.positional > 0)
    if (PyObject* logger = trace.see(args[0])->object) {
      Owned<> bound = take(PyMethod_New(function, logger));
      if (is_listed("ignore_logging_functions", bound.get())) return trace.none();
    }
  auto* traced = trace.see_as<Function>(trace.pinned(function));
  return trace.inliner->call(traced, args);
}

/// getLogger(name): asked now, which at most makes the logger earlier than the program would.
Value* get_logger(Trace& trace, const Args& args) {
  static PyObject* const function = real("logging", "getLogger");
  auto [name] = bind(args, 0, {"name"});
  PyObject* text = name ? trace.constant_of(name) : Py_None;
  if (!text || (text != Py_None && !PyUnicode_CheckExact(text))) cannot(Reason::CallSkipped, "logging.getLogger");
  return pin(trace, call_real(trace, function, {text}));
}

/// isEnabledFor(level): its cache is filled now, so that the trace finds and guards the answer there.
Value* is_enabled_for(Trace& trace, const Args& args) {
  static PyObject* const type = real("logging", "Logger");
  static PyObject* const function = real("logging", "Logger.isEnabledFor");
  Value *logger = args.positional == 2 ? trace.see(args[0]) : nullptr, *level = logger ? trace.see(args[1]) : nullptr;
  bool plain = logger && logger->object && Py_IS_TYPE(logger->object, reinterpret_cast<PyTypeObject*>(type));
  if (plain && !logger->written && level->kind == Kind::Constant && PyLong_CheckExact(level->object))
    call_real(trace, function, {logger->object, level->object});
  return trace.inliner->call(trace.see_as<Function>(trace.pinned(function)), args);
}

/// What warnings calls after its filters changed: forgets what was shown.
Value* filters_mutated(Trace& trace, const Args& args) {
  static PyObject* const function = real("_warnings", "_filters_mutated");
  positional<0>(args, 0);
  trace.effects.add_call(function, {}, trace.graph.length());
  return trace.none();
}

void register_logging() {
  add_rows("builtins", {{"print", &write_text<"builtins", "print">}});
  add_rows("warnings", {{"warn", &write_text<"warnings", "warn">}});
  add_rows("_warnings", {{"_filters_mutated", &filters_mutated}});
  add_rows("logging", {
                          {"getLogger", &get_logger},
                          {"Logger.isEnabledFor", &is_enabled_for},
                          {"Logger.debug", &log<"Logger.debug">},
                          {"Logger.info", &log<"Logger.info">},
                          {"Logger.warning", &log<"Logger.warning">},
                          {"Logger.warn", &log<"Logger.warn">},
                          {"Logger.error", &log<"Logger.error">},
                          {"Logger.exception", &log<"Logger.exception">},
                          {"Logger.critical", &log<"Logger.critical">},
                          {"Logger.log", &log<"Logger.log">},
                          {"Logger._log", &run_for_real<"logging.Logger._log">},
                      });
}

// ---- sys

/// The traceback is a stand-in that cannot leave the capture.
Value* exception_info(Trace& trace, const Args& args) {
  positional<0>(args, 0);
  if (!trace.handled) return trace.tuple({trace.none(), trace.none(), trace.none()});
  auto* traceback = trace.make<value::Object>();
  traceback->type = &PyTraceBack_Type;
  Value* exception = trace.see(trace.handled);
  return trace.tuple({protocol::class_value(trace, protocol::type_of(exception)), exception, traceback});
}

void register_run_for_real() {
  add_rows("time", {
                       {"time", &run_for_real<"time.time">},
                       {"time_ns", &run_for_real<"time.time_ns">},
                       {"perf_counter", &run_for_real<"time.perf_counter">},
                       {"perf_counter_ns", &run_for_real<"time.perf_counter_ns">},
                       {"monotonic", &run_for_real<"time.monotonic">},
                       {"process_time", &run_for_real<"time.process_time">},
                       {"sleep", &run_for_real<"time.sleep">},
                   });
  add_rows("_random", {
                          {"Random.random", &run_for_real<"random.random">},
                          {"Random.getrandbits", &run_for_real<"random.getrandbits">},
                          {"Random.seed", &run_for_real<"random.seed">},
                          {"Random.getstate", &run_for_real<"random.getstate">},
                          {"Random.setstate", &run_for_real<"random.setstate">},
                      });
  add_rows("sys", {
                      {"_getframe", &run_for_real<"sys._getframe">},
                      {"getrefcount", &run_for_real<"sys.getrefcount">},
                      {"settrace", &run_for_real<"sys.settrace">},
                      {"setprofile", &run_for_real<"sys.setprofile">},
                      {"exit", &run_for_real<"sys.exit">},
                      {"exc_info", &exception_info},
                  });
}

}  // namespace

void register_misc() {
  register_logging();
  register_run_for_real();
}

void register_python() {
  register_core();
  register_numbers();
  register_objects();
  register_list();
  register_dict();
  register_set();
  register_text();
  register_iterators();
  register_itertools();
  register_functools();
  register_operator();
  register_collections();
  register_context();
  register_copy();
  register_descriptors();
  register_heap();
  register_inspect();
  register_weakref();
  register_misc();
}

}  // namespace gramme::builtins
