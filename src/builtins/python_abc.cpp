// isinstance() and issubclass() of abstract base classes.
#include "base/once.h"
#include "builtins/python_support.h"
#include "cpython/objects.h"

namespace gramme::builtins {
namespace {

bool is_library_module(PyObject* name) {
  static const char* const kLibrary[] = {"_collections_abc", "abc", "collections.abc", "contextlib",       "io",
                                         "numbers",          "os",  "typing",          "typing_extensions"};
  auto named = [&](const char* library) { return PyUnicode_CompareWithASCIIString(name, library) == 0; };
  return name && PyUnicode_Check(name) && std::any_of(std::begin(kLibrary), std::end(kLibrary), named);
}

/// A `__subclasshook__` that is not the standard library's, whose hooks only read the classes' dicts.
bool has_user_hook(PyTypeObject* type) {
  static PyObject* const kHook = intern("__subclasshook__");
  PyObject* hook = cpython::type_lookup(type, kHook);
  if (!hook || Py_IS_TYPE(hook, &PyClassMethodDescr_Type)) return false;
  if (!Py_IS_TYPE(hook, &PyClassMethod_Type)) return true;
  Owned<> function = take(PyObject_GetAttrString(hook, "__func__"));
  if (!PyFunction_Check(function.get())) return true;
  return !is_library_module(PyDict_GetItemString(PyFunction_GET_GLOBALS(function.get()), "__name__"));
}

/// A metaclass with a `__subclasscheck__` that is neither type's, ABCMeta's nor typing's.
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

/// Does an abstract class, or a class below it that it asks, decide by code of the user?
bool user_decides(PyTypeObject* type, int depth = 0) {
  if (depth > 20 || has_user_hook(type) || has_user_check(type)) return true;
  auto* cls = reinterpret_cast<PyObject*>(type);
  Owned<> below = take(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyType_Type), "__subclasses__", "O", cls));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(below.get()); ++i)
    if (user_decides(reinterpret_cast<PyTypeObject*>(PyList_GET_ITEM(below.get(), i)), depth + 1)) return true;
  return false;
}

/// What was registered may change the answer for a class, and for one made in the capture through its bases.
void guard_answer(Trace& trace, PyTypeObject* subclass, PyTypeObject* cls, bool answer) {
  auto* object = reinterpret_cast<PyObject*>(subclass);
  if (!trace.is_made(subclass)) {
    const source::Source* source = trace.pool->pinned(reinterpret_cast<PyObject*>(cls));
    return trace.guard({.source = source, .kind = guards::Kind::Subclass, .object = share(object), .number = answer});
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(subclass->tp_bases); ++i) {
    PyObject* base = PyTuple_GET_ITEM(subclass->tp_bases, i);
    int is_below = PyObject_IsSubclass(base, reinterpret_cast<PyObject*>(cls));
    if (is_below < 0) protocol::raise_current(trace);
    guard_answer(trace, reinterpret_cast<PyTypeObject*>(base), cls, is_below != 0);
  }
}

/// Asks Python about two real classes when no code of the user would run.
bool is_abstract_subclass(Trace& trace, PyTypeObject* subclass, PyTypeObject* cls) {
  static PyObject* const kHook = intern("__subclasshook__");
  if (trace.is_subtype(subclass, cls) && trace.type_lookup(cls, kHook) == trace.type_lookup(&PyBaseObject_Type, kHook))
    return true;
  if (user_decides(cls)) cannot(Reason::OpaqueCallback, "isinstance() of a class with its own __subclasshook__");
  int answer = PyObject_IsSubclass(reinterpret_cast<PyObject*>(subclass), reinterpret_cast<PyObject*>(cls));
  if (answer < 0) protocol::raise_current(trace);
  if (!trace.is_made(cls)) guard_answer(trace, subclass, cls, answer != 0);
  return answer != 0;
}

Value* abc_has_instance(Trace& trace, const Args& args) {
  auto [cls, object] = positional<2>(args, 2);
  return trace.boolean(is_abstract_subclass(trace, protocol::type_of(trace.see(object)), class_argument(trace, cls)));
}

Value* abc_has_subclass(Trace& trace, const Args& args) {
  auto [cls, subclass] = positional<2>(args, 2);
  if (!trace.see_as<value::Class>(subclass))
    protocol::raise(trace, PyExc_TypeError, "issubclass() arg 1 must be a class");
  return trace.boolean(is_abstract_subclass(trace, class_argument(trace, subclass), class_argument(trace, cls)));
}

}  // namespace

void register_abc() {
  add_rows("_abc", Takes::Asked,
           {{"_abc_instancecheck", &abc_has_instance}, {"_abc_subclasscheck", &abc_has_subclass}});
}

}  // namespace gramme::builtins
