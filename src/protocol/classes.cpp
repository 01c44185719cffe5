// Classes that the program makes. A real type gives such a class its shape (MRO, slots, name); what the program put in
// its namespace is held by the value. Neither the class nor its instances leave the capture.
#include "cpython/objects.h"
#include "protocol/names.h"
#include "protocol/protocol.h"

namespace gramme::protocol {

using namespace value;
using namespace names;

namespace {

/// Making a class below it runs no code of the program.
void require_plain_base(Trace& trace, Class* base) {
  static PyObject* const hook = intern("__init_subclass__");
  static PyObject* const plain = cpython::type_lookup(&PyBaseObject_Type, hook);
  if (Py_TYPE(base->object) != &PyType_Type) cannot(Reason::CallUnknown, "a class made with a metaclass");
  if (trace.type_lookup(base->type(), hook) != plain)
    cannot(Reason::CallUnknown, "a class made below one with __init_subclass__");
}

/// A real function of the same code, which is never called.
Owned<> likeness(Trace& trace, Function* function) {
  if (function->existing()) cannot(Reason::CallUnknown, "a class made with a function from outside");
  trace.describe(function);
  Owned<> globals = take(PyDict_New());
  Owned<> made =
      take(PyFunction_NewWithQualName(reinterpret_cast<PyObject*>(function->code), globals.get(), function->qualname));
  if (function->closure.empty()) return made;
  Owned<> cells = take(PyTuple_New(static_cast<Py_ssize_t>(function->closure.size())));
  for (size_t i = 0; i < function->closure.size(); ++i)
    PyTuple_SET_ITEM(cells.get(), static_cast<Py_ssize_t>(i), take(PyCell_New(nullptr)).release());
  check(PyFunction_SetClosure(made.get(), cells.get()));
  return made;
}

/// What stands in the real type for a value of the namespace. Ends the segment for values that might be descriptors.
Owned<> stand_in(Trace& trace, Value* seen) {
  switch (seen->kind) {
    case Kind::Function:
      return likeness(trace, static_cast<Function*>(seen));
    case Kind::Constant:
      return share(seen->object);
    case Kind::Tensor:
    case Kind::Number:
    case Kind::Tuple:
    case Kind::List:
    case Kind::Dict:
    case Kind::Set:
      return take(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
    default:
      cannot(Reason::CallUnknown, "a class made with a " + std::string(type_of(seen)->tp_name) + " in its namespace");
  }
}

/// Names that type() reads, beside those of methods.
bool is_read_by_type(PyObject* name) {
  static const char* const kNames[] = {"__slots__", "__init_subclass__", "__class_getitem__", "__new__",
                                       "__set_name__"};
  for (const char* read : kNames)
    if (PyUnicode_CompareWithASCIIString(name, read) == 0) return true;
  return false;
}

}  // namespace

Value* make_class(Trace& trace, Value* name, const std::vector<Value*>& bases, Dict* names) {
  PyObject* text = trace.constant_of(name);
  if (!text || !PyUnicode_CheckExact(text)) cannot(Reason::ArgumentKind, "type() making a class");
  Owned<> real_bases = take(PyTuple_New(static_cast<Py_ssize_t>(bases.size()))), content = take(PyDict_New());
  for (size_t i = 0; i < bases.size(); ++i) {
    auto* base = trace.see_as<Class>(bases[i]);
    if (!base) cannot(Reason::CallUnknown, "a class made below what is no class");
    require_plain_base(trace, base);
    PyTuple_SET_ITEM(real_bases.get(), static_cast<Py_ssize_t>(i), share(base->object).release());
  }
  Attributes attributes;
  trace.load(names);
  names->entries.each([&](Table::Entry& entry) {
    PyObject* key = trace.constant_of(entry.key);
    if (!key || !PyUnicode_CheckExact(key) || is_read_by_type(key))
      cannot(Reason::CallUnknown, "a class made with an unusual namespace");
    Value* seen = trace.see(entry.value);
    check(PyDict_SetItem(content.get(), key, stand_in(trace, seen).get()));
    PyObject* interned = share(key).release();  // by hand: PyUnicode_InternInPlace takes and gives a reference
    PyUnicode_InternInPlace(&interned);
    attributes.push_back({trace.keep(Owned<>::steal(interned)), seen});
  });
  if (!PyDict_GetItem(content.get(), k_module))
    cannot(Reason::CallUnknown, "a class made without the name of its module");
  Owned<> args = take(PyTuple_Pack(3, text, real_bases.get(), content.get()));
  Owned<> type = Owned<>::steal(PyType_Type.tp_new(&PyType_Type, args.get(), nullptr));
  if (!type) raise_current(trace);
  return trace.new_class(std::move(type), std::move(attributes));
}

}  // namespace gramme::protocol
