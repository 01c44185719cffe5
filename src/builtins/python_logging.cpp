// Text that the program writes: print(), logging, warnings.
#include "base/imported.h"
#include "base/once.h"
#include "base/text.h"
#include "builtins/python_support.h"
#include "guards/warnings.h"
#include "torch/option.h"

namespace gramme::builtins {
namespace {

using value::Function;
using value::Kind;

// ---- printing and logging, as the options of torch's own front end say

constinit Option ignored(of_torch::DynamoConfig, "ignore_logging_functions");
constinit Option reordered(of_torch::DynamoConfig, "reorderable_logging_functions");

/// Is the function in the set? The module is not imported for it.
bool is_listed(Option& set, PyObject* function) {
  Owned<> functions = set.value();
  int found = functions ? PySequence_Contains(functions.get(), function) : 0;
  if (found < 0) PyErr_Clear();
  return found > 0;
}

/// A function that only writes text, whatever it writes to: nothing if it is ignored, called after the graph if it may
/// be moved there. Else it is run for real, where the program has it.
template <Text module, Text name>
Value* write_text(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real(module.text, name.text); });
  if (is_listed(ignored, function)) return trace.none();
  bool movable = !args.keywords && is_listed(reordered, function);
  if (!movable) cannot(Reason::CallSkipped, name.text);
  trace.call_in_replay(function, all_positional(args));
  return trace.none();
}

/// A method of logging.Logger: ignored, or traced like any other; what it writes in the end is run for real.
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

/// getLogger(name): asked now, which at most makes the logger earlier than the program would.
Value* get_logger(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("logging", "getLogger"); });
  auto [name] = bind(args, 0, {"name"});
  PyObject* text = name ? trace.constant_of(name) : Py_None;
  if (!text || (text != Py_None && !PyUnicode_CheckExact(text))) cannot(Reason::CallSkipped, "logging.getLogger");
  return pin(trace, call_real(trace, function, {text}));
}

/// isEnabledFor(level): its cache is filled now, so that the trace finds and guards the answer there.
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

/// Is the module's variable written in the capture?
bool is_written(Trace& trace, const char* module, std::initializer_list<const char*> names) {
  PyObject* found = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  auto* seen = found ? trace.see_as<value::Module>(trace.pinned(found)) : nullptr;
  if (!seen) cannot(Reason::CallSkipped, std::string("a function of ") + module);
  auto& known = static_cast<value::Namespace*>(seen->names)->names;
  return std::any_of(names.begin(), names.end(), [&](const char* name) {
    auto at = known.find(intern(name));
    return at != known.end() && at->second.written;
  });
}

/// The filters as the capture left them changed.
struct Filters {
  bool changed = false;
};

/// Does the first filter that concerns the category ignore all of it?
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

/// warn() as it is at the place: (message, category, file, line, globals).
PyObject* warn_at(PyObject*, PyObject* const* args, Py_ssize_t) {
  static PyObject* const k_registry = intern("__warningregistry__");
  static PyObject* const k_name = intern("__name__");
  PyObject* const warn_explicit = once([] { return real("_warnings", "warn_explicit"); });
  PyObject* globals = args[4];
  Owned<> registry = Owned<>::steal(PyObject_GetItem(globals, k_registry));
  if (!registry) {
    PyErr_Clear();
    registry = take(PyDict_New());
    if (PyDict_SetItem(globals, k_registry, registry.get()) < 0) return nullptr;
  }
  PyObject* name = PyDict_GetItem(globals, k_name);
  Owned<> module =
      name && (name == Py_None || PyUnicode_Check(name)) ? share(name) : take(PyUnicode_FromString("<string>"));
  return PyObject_CallFunctionObjArgs(warn_explicit, args[0], args[1], args[2], args[3], module.get(), registry.get(),
                                      nullptr);
}
PyMethodDef warn_method = {"warn_at", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&warn_at)), METH_FASTCALL,
                           nullptr};

/// The text and category of warn(); ends the segment where the program's classes have a say in them.
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

/// As an effect, where it will not be raised: when the graph ran, with the registry of the module it is issued for.
Value* warn(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("warnings", "warn"); });
  PyObject* const at = once([] { return PyCFunction_New(&warn_method, nullptr); });
  if (is_listed(ignored, function)) return trace.none();
  auto [message, category, level, origin] = bind(args, 1, {"message", "category", "stacklevel", "source"});
  auto [text, type] = warned(trace, message, category);
  const Py_ssize_t outward = std::max<Py_ssize_t>(index_or(trace, level, 1), 1) - 1;
  const bool touched = trace.state<Filters>().changed ||
                       is_written(trace, "warnings", {"filters", "defaultaction", "showwarning", "_showwarnmsg_impl"});
  if (touched && is_ignored(trace, type)) return trace.none();
  const trace::CallSite site = trace.inliner->call_site(static_cast<size_t>(outward));
  const bool internal = site.code && utf8_of(site.code->co_filename).find("importlib") != std::string::npos;
  if (touched || !site.globals || internal || !is_none(trace, origin) || is_written(trace, "sys", {"stderr"}))
    cannot(Reason::CallSkipped, "warnings.warn");
  Value *class_ = protocol::class_value(trace, type), *line = trace.integer(site.line);
  Owned<> warning = take(PyTuple_Pack(3, text, reinterpret_cast<PyObject*>(type), line->object));
  if (!guards::is_harmless_warning(site.globals->object, warning.get())) cannot(Reason::CallSkipped, "warnings.warn");
  trace.guard({site.globals->source, guards::Kind::Warning, std::move(warning)});
  trace.call_in_replay(at, {trace.constant(text), class_, trace.constant(site.code->co_filename), line, site.globals});
  return trace.none();
}

/// What warnings calls after its filters changed: forgets what was shown. Operations after it may warn.
Value* filters_mutated(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("_warnings", "_filters_mutated"); });
  positional<0>(args, 0);
  trace.state<Filters>().changed = true;
  trace.call_in_replay(function, {});
  if (trace.contract.breaks) trace.scope().set_late_state("a change of the filters of warnings");
  return trace.none();
}

}  // namespace

void register_logging() {
  add_rows("builtins", Takes::Asked, {{"print", &write_text<"builtins", "print">}});
  add_rows("warnings", Takes::Asked, {{"warn", &warn}});
  add_rows("_warnings", Takes::Asked, {{"_filters_mutated", &filters_mutated}});
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
