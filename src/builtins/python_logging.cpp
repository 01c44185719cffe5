// Output of the program: print(), logging, warnings.
#include "base/imported.h"
#include "base/once.h"
#include "base/text.h"
#include "builtins/python_support.h"
#include "protocol/warned.h"
#include "torch/option.h"

namespace gramme::builtins {
namespace {

using value::Function;
using value::Kind;

// ---- printing and logging, by the options of PyTorch's front end

constinit Option ignored(of_torch::DynamoConfig, "ignore_logging_functions");
constinit Option reordered(of_torch::DynamoConfig, "reorderable_logging_functions");

/// True if the option's set contains the function. Does not import the module.
bool is_listed(Option& set, PyObject* function) {
  Owned<> functions = set.value();
  int found = functions ? PySequence_Contains(functions.get(), function) : 0;
  if (found < 0) PyErr_Clear();
  return found > 0;
}

/// A function that only writes text: dropped if options ignore it, called after the graph if they allow reordering,
/// else run for real.
template <Text module, Text name>
Value* write_text(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real(module.text, name.text); });
  if (is_listed(ignored, function)) return trace.none();
  bool movable = !args.keywords && is_listed(reordered, function);
  if (!movable) cannot(Reason::CallSkipped, name.text);
  trace.call_in_replay(function, all_positional(args));
  return trace.none();
}

/// A method of logging.Logger: dropped if ignored, else traced; the final write runs for real.
template <Text name>
Value* log(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("logging", name.text); });
  if (is_listed(ignored, function)) return trace.none();
  if (args.positional > 0)
    if (PyObject* logger = trace.see(args[0])->object) {
      Owned<> bound = take(PyMethod_New(function, logger));
      if (is_listed(ignored, bound.get())) return trace.none();
    }
  auto* traced = trace.see_as<Function>(trace.pinned(function));
  return trace.inliner->call(traced, args);
}

/// getLogger(name): called now, which at most creates the logger earlier than the program would.
Value* get_logger(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("logging", "getLogger"); });
  auto [name] = bind(args, 0, {"name"});
  PyObject* text = name ? trace.constant_of(name) : Py_None;
  if (!text || (text != Py_None && !PyUnicode_CheckExact(text))) cannot(Reason::CallSkipped, "logging.getLogger");
  return pin(trace, call_real(trace, function, {text}));
}

/// isEnabledFor(level): fills the logger's cache now, so that the trace reads and guards the answer there.
Value* is_enabled_for(Trace& trace, const Args& args) {
  PyObject* const type = once([] { return real("logging", "Logger"); });
  PyObject* const function = once([] { return real("logging", "Logger.isEnabledFor"); });
  Value *logger = args.positional == 2 ? trace.see(args[0]) : nullptr, *level = logger ? trace.see(args[1]) : nullptr;
  bool plain = logger && logger->object && Py_IS_TYPE(logger->object, reinterpret_cast<PyTypeObject*>(type));
  if (plain && !logger->written && level->kind == Kind::Constant && PyLong_CheckExact(level->object))
    call_real(trace, function, {logger->object, level->object});
  return trace.inliner->call(trace.see_as<Function>(trace.pinned(function)), args);
}

// ---- warnings

/// True if the first filter for the category ignores every warning of it.
bool is_ignored(Trace& trace, PyTypeObject* category) {
  PyObject* const library = once([] { return import_module("warnings"); });
  auto* module = trace.see_as<value::Module>(trace.pinned(library));
  Value* filters = trace.global(static_cast<value::Namespace*>(module->names), intern("filters"));
  auto* list = filters ? trace.see_as<value::List>(filters) : nullptr;
  if (!list) return false;
  for (Value* item : list->items()) {
    auto* filter = trace.see_as<value::Tuple>(item);
    auto* concerned = filter && filter->items.size() == 5 ? trace.see_as<value::Class>(filter->items[2]) : nullptr;
    if (!concerned || !Py_IS_TYPE(concerned->object, &PyType_Type)) return false;
    if (!trace.is_subtype(category, concerned->type())) continue;
    Owned<> action = trace.concrete(filter->items[0]), line = trace.concrete(filter->items[4]);
    const bool all = is_none(trace, filter->items[1]) && is_none(trace, filter->items[3]) && line &&
                     PyLong_CheckExact(line.get()) && PyLong_AsLong(line.get()) == 0;
    return all && action && PyUnicode_Check(action.get()) &&
           PyUnicode_CompareWithASCIIString(action.get(), "ignore") == 0;
  }
  return false;
}

/// The text and category of warn(); ends the segment if classes of the program determine them.
std::pair<PyObject*, PyTypeObject*> warned(Trace& trace, Value* message, Value* category) {
  auto* const base = reinterpret_cast<PyTypeObject*>(PyExc_Warning);
  auto* cls = category ? trace.see_as<value::Class>(category) : nullptr;
  PyTypeObject* type = cls ? cls->type() : reinterpret_cast<PyTypeObject*>(PyExc_UserWarning);
  auto* object = trace.see_as<value::Object>(message);
  if (object && !object->existing() && object->payload && object->attributes.empty()) {
    auto* args = trace.see_as<value::Tuple>(object->payload);
    type = object->type;
    message = args && args->items.size() == 1 ? args->items[0] : trace.none();
  }
  PyObject* text = trace.constant_of(message);
  const bool known = text && PyUnicode_CheckExact(text) && (cls || !category || is_none(trace, category)) &&
                     Py_IS_TYPE(type, &PyType_Type) && PyType_IsSubtype(type, base) && !trace.is_made(type);
  if (!known) cannot(Reason::CallSkipped, "warnings.warn");
  for (const char* method : {"__new__", "__init__", "__str__"})
    if (PyObject* found = trace.type_lookup(type, intern(method));
        !found || PyFunction_Check(found) || Py_IS_TYPE(found, &PyStaticMethod_Type))
      cannot(Reason::CallSkipped, "warnings.warn() of a class with its own constructor");
  return {text, type};
}

/// warnings.warn: an effect if it cannot raise; issued after the graph, with the registry of its module.
Value* warn(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("warnings", "warn"); });
  if (is_listed(ignored, function)) return trace.none();
  auto [message, category, level, origin] = bind(args, 1, {"message", "category", "stacklevel", "source"});
  auto [text, type] = warned(trace, message, category);
  const Py_ssize_t outward = std::max<Py_ssize_t>(index_or(trace, level, 1), 1) - 1;
  if (protocol::writes_filters(trace) && is_ignored(trace, type)) return trace.none();
  const trace::CallSite site = trace.inliner->call_site(static_cast<size_t>(outward));
  if (!is_none(trace, origin) || !protocol::warn_at(trace, site, text, type))
    cannot(Reason::CallSkipped, "warnings.warn");
  return trace.none();
}

/// Acquires or releases the filters' lock. A segment may end with it held.
template <Text name>
Value* lock_filters(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("_warnings", name.text); });
  positional<0>(args, 0);
  trace.call_in_replay(function, {});
  return trace.none();
}

/// Called by warnings after a filter change: forgets which warnings were shown.
template <Text name>
Value* filters_mutated(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("_warnings", name.text); });
  positional<0>(args, 0);
  trace.state<protocol::Filters>().changed = true;
  trace.call_in_replay(function, {});
  if (trace.contract.breaks)
    trace.scope().set_late_state("a change of the filters of warnings",
                                 [&trace] { return protocol::shows_others(trace); });
  return trace.none();
}

}  // namespace

void register_logging() {
  add_rows("builtins", Takes::Asked, {{"print", &write_text<"builtins", "print">}});
  add_rows("warnings", Takes::Asked, {{"warn", &warn}});
  add_rows("_warnings", Takes::Asked,
           {
               {"_filters_mutated", &filters_mutated<"_filters_mutated">},
               {"_filters_mutated_lock_held", &filters_mutated<"_filters_mutated_lock_held">},
               {"_acquire_lock", &lock_filters<"_acquire_lock">},
               {"_release_lock", &lock_filters<"_release_lock">},
           });
  add_rows("logging", Takes::Asked,
           {
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

}  // namespace gramme::builtins
