// isinstance() and issubclass() of abstract base classes.
#include <map>

#include "base/once.h"
#include "builtins/python_support.h"
#include "cpython/objects.h"

namespace gramme::builtins {
namespace {

PyObject* const k_subclasshook = intern("__subclasshook__");

bool is_library_module(PyObject* name) {
  static const char* const kLibrary[] = {"_collections_abc", "abc", "collections.abc", "contextlib",       "io",
                                         "numbers",          "os",  "typing",          "typing_extensions"};
  auto named = [&](const char* library) { return PyUnicode_CompareWithASCIIString(name, library) == 0; };
  return name && PyUnicode_Check(name) && std::any_of(std::begin(kLibrary), std::end(kLibrary), named);
}

/// True for a `__subclasshook__` outside the standard library, whose own hooks only read class dicts. Protocols have
/// theirs as a plain function.
bool has_user_hook(PyTypeObject* type) {
  PyObject* hook = cpython::type_lookup(type, k_subclasshook);
  if (!hook || Py_IS_TYPE(hook, &PyClassMethodDescr_Type)) return false;
  Owned<> function =
      Py_IS_TYPE(hook, &PyClassMethod_Type) ? take(PyObject_GetAttrString(hook, "__func__")) : share(hook);
  if (!PyFunction_Check(function.get())) return true;
  return !is_library_module(PyDict_GetItemString(PyFunction_GET_GLOBALS(function.get()), "__name__"));
}

/// True for a metaclass whose `__subclasscheck__` is neither type's, ABCMeta's nor typing's.
bool has_user_check(PyTypeObject* type) {
  static PyObject* const kCheck = intern("__subclasscheck__");
  static PyObject* const kModule = intern("__module__");
  PyObject* const abc_meta = once([] { return real("abc", "ABCMeta"); });
  PyTypeObject* meta = Py_TYPE(type);
  PyObject* check = cpython::type_lookup(meta, kCheck);
  if (check == cpython::type_lookup(&PyType_Type, kCheck)) return false;
  if (check == cpython::type_lookup(reinterpret_cast<PyTypeObject*>(abc_meta), kCheck)) return false;
  return !is_library_module(cpython::type_lookup(meta, kModule));
}

/// True for a protocol that is not runtime-checkable or has non-method members. It answers issubclass() only to the
/// standard library, which it recognises by the caller's frame (since 3.12 its metaclass does).
bool looks_at_callers(PyTypeObject* cls) {
  PyObject* const only_methods = once([] { return real("typing", "_is_callable_members_only"); });
  if (!only_methods) return false;
  auto* object = reinterpret_cast<PyObject*>(cls);
  auto flag = [&](const char* name) {
    Owned<> value = Owned<>::steal(PyObject_GetAttrString(object, name));
    if (!value) PyErr_Clear();
    return value && value.get() != Py_False;
  };
  if (!flag("_is_protocol")) return false;
  PyObject* const meta = once([] { return real("typing", "_ProtocolMeta"); });
  if (!flag("_is_runtime_protocol") || reinterpret_cast<PyObject*>(Py_TYPE(cls)) != meta) return true;
  return take(PyObject_CallOneArg(only_methods, object)).get() != Py_True;
}

/// Traces a hook of the program, which may change nothing: Python calls it now and again in guards, and side effects
/// would be visible.
void follow_hook(Trace& trace, PyTypeObject* cls, PyTypeObject* subclass) {
  if (trace.is_made(cls) || trace.is_made(subclass))
    cannot(Reason::OpaqueCallback, "a __subclasshook__ asked about a class made in the capture");
  trace::Confined confined(trace.confinement, trace.inliner);
  try {
    Value* hook = protocol::get_attribute(trace, protocol::class_value(trace, cls), k_subclasshook);
    protocol::call(trace, hook, {protocol::class_value(trace, subclass)});
  } catch (const value::UserError&) {
    cannot(Reason::OpaqueCallback, "a __subclasshook__ that raises");
  }
  confined.check();
}

/// The same for the hooks of an abstract class and of its subclasses, which it consults.
void follow_hooks(Trace& trace, PyTypeObject* cls, PyTypeObject* subclass, int depth = 0) {
  if (depth > 20 || has_user_check(cls))
    cannot(Reason::OpaqueCallback, "isinstance() of a class with its own __subclasscheck__");
  if (has_user_hook(cls)) follow_hook(trace, cls, subclass);
  Owned<> below = cpython::subclasses(cls);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(below.get()); ++i)
    follow_hooks(trace, reinterpret_cast<PyTypeObject*>(PyList_GET_ITEM(below.get(), i)), subclass, depth + 1);
}

/// State of the capture: answers already given, which stay the same, as in abc's cache.
struct Asked {
  std::map<std::pair<PyTypeObject*, PyTypeObject*>, bool> answers;  // by (subclass, class)
};

/// Guards the answer, which a later register() may change; for a class made in the capture, through its bases.
void guard_answer(Trace& trace, PyTypeObject* subclass, PyTypeObject* cls, bool answer) {
  auto* object = reinterpret_cast<PyObject*>(subclass);
  if (!trace.is_made(subclass)) {
    const source::Source* source = trace.pool->pinned(reinterpret_cast<PyObject*>(cls));
    return trace.facts.add(
        {.source = source, .kind = guards::Kind::Subclass, .object = share(object), .number = answer});
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(subclass->tp_bases); ++i) {
    PyObject* base = PyTuple_GET_ITEM(subclass->tp_bases, i);
    int is_below = cpython::is_abstract_subclass(base, reinterpret_cast<PyObject*>(cls));
    if (is_below < 0) protocol::raise_current(trace);
    guard_answer(trace, reinterpret_cast<PyTypeObject*>(base), cls, is_below != 0);
  }
}

/// issubclass(), or isinstance() for protocols where the two differ. -1 if it raised.
int ask(PyTypeObject* subclass, PyTypeObject* cls, PyObject* instance) {
  PyObject* const check = once([] { return real("abc", "ABCMeta.__instancecheck__"); });
  auto* object = reinterpret_cast<PyObject*>(cls);
  if (!looks_at_callers(cls)) return cpython::is_abstract_subclass(reinterpret_cast<PyObject*>(subclass), object);
  if (!instance || Py_TYPE(instance) != subclass)
    cannot(Reason::OpaqueCallback, "a protocol that looks at who asks it");
  Owned<> answer = Owned<>::steal(PyObject_CallFunctionObjArgs(check, object, instance, nullptr));
  return answer ? PyObject_IsTrue(answer.get()) : -1;
}

/// Asks Python about two real classes. Only code of the program that changes nothing may run.
bool is_abstract_subclass(Trace& trace, PyTypeObject* subclass, PyTypeObject* cls, PyObject* instance) {
  if (trace.is_subtype(subclass, cls) &&
      trace.type_lookup(cls, k_subclasshook) == trace.type_lookup(&PyBaseObject_Type, k_subclasshook))
    return true;
  auto& answers = trace.state<Asked>().answers;
  if (auto known = answers.find({subclass, cls}); known != answers.end()) return known->second;
  follow_hooks(trace, cls, subclass);
  int answer = ask(subclass, cls, instance);
  if (answer < 0) protocol::raise_current(trace);
  if (!trace.is_made(cls)) guard_answer(trace, subclass, cls, answer != 0);
  return answers[{subclass, cls}] = answer != 0;
}

Value* abc_has_instance(Trace& trace, const Args& args) {
  auto [cls, object] = positional<2>(args, 2);
  static PyObject* const state = intern("_abc_impl");
  if (!trace.type_lookup(class_argument(trace, cls), state))
    cannot(Reason::ArgumentKind, "a class that is not abstract");
  Value* seen = trace.see(object);
  return trace.boolean(is_abstract_subclass(trace, protocol::type_of(seen), class_argument(trace, cls), seen->object));
}

Value* abc_has_subclass(Trace& trace, const Args& args) {
  auto [cls, subclass] = positional<2>(args, 2);
  if (!trace.see_as<value::Class>(subclass))
    protocol::raise(trace, PyExc_TypeError, "issubclass() arg 1 must be a class");
  return trace.boolean(
      is_abstract_subclass(trace, class_argument(trace, subclass), class_argument(trace, cls), nullptr));
}

}  // namespace

void register_abc() {
  add_rows("_abc", Takes::Asked,
           {{"_abc_instancecheck", &abc_has_instance}, {"_abc_subclasscheck", &abc_has_subclass}});
}

}  // namespace gramme::builtins
