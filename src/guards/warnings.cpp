// Walks warnings.filters as warnings.warn() does, with the answer Unknown where a part would run code of the program.
#include "guards/warnings.h"

#include "base/imported.h"
#include "base/once.h"
#include "cpython/objects.h"

namespace gramme::guards {
namespace {

enum class Answer { No, Yes, Unknown };

/// The variables of a module that is imported, borrowed; null if it is not.
PyObject* variables_of(const char* module) {
  PyObject* found = known_module(module);
  return found && PyModule_Check(found) ? PyModule_GetDict(found) : nullptr;
}

/// Whether a filter's part (None, a str from C, or a compiled pattern) matches the text.
Answer matches(PyObject* part, PyObject* text) {
  PyTypeObject* const pattern = once([] { return imported_type("re", "Pattern"); });
  if (part == Py_None) return Answer::Yes;
  if (PyUnicode_CheckExact(part)) return PyUnicode_Compare(part, text) == 0 ? Answer::Yes : Answer::No;
  if (!Py_IS_TYPE(part, pattern)) return Answer::Unknown;
  Owned<> match = Owned<>::steal(PyObject_CallMethod(part, "match", "O", text));
  if (!match) PyErr_Clear();
  return !match ? Answer::Unknown : match.get() == Py_None ? Answer::No : Answer::Yes;
}

Answer is_below(PyObject* category, PyObject* wanted) {
  if (!Py_IS_TYPE(wanted, &PyType_Type)) return Answer::Unknown;
  bool below = PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(category), reinterpret_cast<PyTypeObject*>(wanted));
  return below ? Answer::Yes : Answer::No;
}

Answer is_on(PyObject* line, PyObject* wanted) {
  if (!PyLong_CheckExact(wanted)) return Answer::Unknown;
  int overflow = 0;
  const long given = PyLong_AsLongAndOverflow(line, &overflow), asked = PyLong_AsLongAndOverflow(wanted, &overflow);
  return asked == 0 || asked == given ? Answer::Yes : Answer::No;
}

/// The module name that filters match.
Owned<> module_name(PyObject* globals) {
  PyObject* name = PyDict_GetItemString(globals, "__name__");
  return name && PyUnicode_CheckExact(name) ? share(name) : take(PyUnicode_FromString("<string>"));
}

/// The action that the filters choose, as text; null if unknown.
PyObject* action_for(PyObject* library, PyObject* globals, PyObject* warning) {
  PyObject* filters = PyDict_GetItemString(library, "filters");
  if (!filters || !PyList_CheckExact(filters)) return nullptr;
  Owned<> module = module_name(globals);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(filters); ++i) {
    Owned<> filter = share(PyList_GET_ITEM(filters, i));
    if (!PyTuple_CheckExact(filter.get()) || PyTuple_GET_SIZE(filter.get()) != 5) return nullptr;
    auto part = [&](Py_ssize_t index) { return PyTuple_GET_ITEM(filter.get(), index); };
    const Answer answers[] = {is_below(PyTuple_GET_ITEM(warning, 1), part(2)),
                              is_on(PyTuple_GET_ITEM(warning, 2), part(4)),
                              matches(part(1), PyTuple_GET_ITEM(warning, 0)), matches(part(3), module.get())};
    bool all = true;
    for (Answer answer : answers) {
      if (answer == Answer::Unknown) return nullptr;
      all &= answer == Answer::Yes;
    }
    if (all) return part(0);
  }
  return PyDict_GetItemString(library, "defaultaction");
}

/// True if the library's own functions for showing warnings are still in place. Since CPython 3.14 another module
/// defines them, and `warnings` has their names.
bool shows_by_itself(PyObject* library) {
  PyObject* const defines = variables_of("_py_warnings");  // no name of torch: a module of CPython
  for (const char* name : {"_showwarnmsg", "_showwarnmsg_impl", "_formatwarnmsg", "_formatwarnmsg_impl"}) {
    PyObject* found = PyDict_GetItemString(library, name);
    if (!found || !PyFunction_Check(found)) return false;
    PyObject* const globals = PyFunction_GET_GLOBALS(found);
    if ((globals != library && globals != defines) ||
        PyUnicode_CompareWithASCIIString(cpython::code_of(cpython::as_function(found))->co_name, name) != 0)
      return false;
  }
  PyObject* const originals = defines ? defines : library;
  return PyDict_GetItemString(library, "showwarning") == PyDict_GetItemString(originals, "_showwarning_orig") &&
         PyDict_GetItemString(library, "formatwarning") == PyDict_GetItemString(originals, "_formatwarning_orig");
}

bool writes_in_c(PyObject* file) {
  static PyObject* const write = intern("write");
  PyTypeObject* const wrapper = once([] { return imported_type("_io", "TextIOWrapper"); });
  if (!file || file == Py_None) return true;
  if (!PyObject_TypeCheck(file, wrapper)) return false;
  PyObject* method = cpython::type_lookup(Py_TYPE(file), write);
  return method && Py_IS_TYPE(method, &PyMethodDescr_Type);
}

}  // namespace

bool is_harmless_warning(PyObject* globals, PyObject* warning) {
  PyObject* library = variables_of("warnings");
  if (!library || !PyDict_CheckExact(globals)) return false;
  PyObject* action = action_for(library, globals, warning);
  if (!action || !PyUnicode_CheckExact(action)) return false;
  auto is = [&](const char* text) { return PyUnicode_CompareWithASCIIString(action, text) == 0; };
  if (is("ignore")) return true;
  if (!is("default") && !is("always") && !is("once") && !is("module")) return false;
  return shows_by_itself(library) && writes_in_c(PySys_GetObject("stderr"));
}

}  // namespace gramme::guards
