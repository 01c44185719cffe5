// The replayed function, and the conditions under which a warning's handling is predictable.
#include "protocol/warned.h"

#include "base/imported.h"
#include "base/once.h"
#include "base/text.h"
#include "guards/warnings.h"
#include "protocol/protocol.h"

namespace gramme::protocol {
namespace {

/// What the capture has read and written of the module's variables.
const auto& variables_of(Trace& trace, const char* module) {
  PyObject* found = known_module(module);
  auto* seen = found ? trace.see_as<value::Module>(trace.pinned(found)) : nullptr;
  if (!seen) cannot(Reason::CallSkipped, std::string("a function of ") + module);
  return static_cast<value::Namespace*>(seen->names)->names;
}

/// True if the capture has written one of the module's variables.
bool is_written(Trace& trace, const char* module, std::initializer_list<const char*> names) {
  const auto& known = variables_of(trace, module);
  return std::any_of(names.begin(), names.end(), [&](const char* name) {
    auto at = known.find(intern(name));
    return at != known.end() && at->second.written;
  });
}

/// True under -X context_aware_warnings, where catch_warnings changes context-local filters, which are not examined
/// here.
bool filters_are_contexts() {
  PyObject* flags = PySys_GetObject("flags");
  Owned<> flag = flags ? Owned<>::steal(PyObject_GetAttrString(flags, "context_aware_warnings")) : Owned<>();
  if (!flag) PyErr_Clear();
  return flag && PyObject_IsTrue(flag.get()) > 0;
}

/// Issues a warning as warn() would at that place: (message, category, file, line, globals).
PyObject* issue(PyObject*, PyObject* const* args, Py_ssize_t) {
  static PyObject* const k_registry = intern("__warningregistry__");
  static PyObject* const k_name = intern("__name__");
  PyObject* const warn_explicit = once([] { return imported("_warnings", "warn_explicit").release(); });
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
PyMethodDef issue_method = {"warn_at", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&issue)), METH_FASTCALL,
                            nullptr};

/// True if the value is the unchanged object, or a list made in the capture that holds what the object, a list, holds.
bool is_as_before(value::Value* value, PyObject* object) {
  if (!value) return !object;
  if (!object || value->written) return false;
  if (value->existing()) return value->object == object;
  auto* copy = value->kind == value::Kind::List ? static_cast<value::List*>(value) : nullptr;
  if (!copy || !PyList_CheckExact(object)) return false;
  const std::vector<value::Value*>& items = copy->items();
  if (items.size() != static_cast<size_t>(PyList_GET_SIZE(object))) return false;
  for (size_t i = 0; i < items.size(); ++i)
    if (items[i]->object != PyList_GET_ITEM(object, i)) return false;
  return true;
}

}  // namespace

bool shows_others(Trace& trace) {
  const auto& variables = variables_of(trace, "warnings");
  PyObject* const real = PyModule_GetDict(known_module("warnings"));  // the capture's writes come later
  for (const auto& [name, now] : variables)
    if ((now.written || (now.value && now.value->written)) && !is_as_before(now.value, PyDict_GetItem(real, name)))
      return true;
  return false;
}

bool writes_filters(Trace& trace) {
  if (filters_are_contexts()) cannot(Reason::CallSkipped, "warnings.warn() under context_aware_warnings");
  return trace.state<Filters>().changed ||
         is_written(trace, "warnings", {"filters", "defaultaction", "showwarning", "_showwarnmsg_impl"});
}

PyObject* warning_issuer() {
  return once([] { return PyCFunction_New(&issue_method, nullptr); });
}

bool warn_at(Trace& trace, const trace::CallSite& site, PyObject* text, PyTypeObject* category) {
  PyObject* const at = warning_issuer();
  const bool internal = site.code && utf8_of(site.code->co_filename).find("importlib") != std::string::npos;
  if (!site.globals || internal || writes_filters(trace) || is_written(trace, "sys", {"stderr"})) return false;
  value::Value *type = class_value(trace, category), *line = trace.integer(site.line);
  Owned<> warning = take(PyTuple_Pack(3, text, reinterpret_cast<PyObject*>(category), line->object));
  if (!guards::is_harmless_warning(site.globals->object, warning.get())) return false;
  trace.facts.add({site.globals->source, guards::Kind::Warning, std::move(warning)});
  trace.call_in_replay(at, {trace.constant(text), type, trace.constant(site.code->co_filename), line, site.globals});
  return true;
}

}  // namespace gramme::protocol
