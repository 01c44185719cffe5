// Exceptions: the methods of their C classes.
#include "base/imported.h"
#include "base/text.h"
#include "builtins/python_support.h"

namespace gramme::builtins {
namespace {

/// Self of a method that changes C fields; ends the segment for existing exceptions, since no effect writes these.
value::Object* changing_exception(Trace& trace, Value* self) {
  auto* object = object_argument(trace, self);
  if (object->existing()) cannot(Reason::MutationUnsupported, "an exception created before the capture");
  return object;
}

Value* init_exception(Trace& trace, const Args& args) {
  changing_exception(trace, args[0])->payload = trace.tuple(all_positional(args, 1));
  return trace.none();
}

value::Tuple* exception_args(Trace& trace, Value* self) {
  auto* object = object_argument(trace, self);
  auto* tuple = object->payload ? trace.see_as<value::Tuple>(object->payload) : nullptr;
  if (!tuple) cannot(Reason::ArgumentKind, "the arguments of an exception created before the capture");
  return tuple;
}

Value* text_of_exception(Trace& trace, const Args& args) {
  auto* tuple = exception_args(trace, args[0]);
  if (tuple->items.empty()) return trace.text("");
  return protocol::to_str(trace, tuple->items.size() == 1 ? tuple->items[0] : tuple);
}

Value* text_of_key_error(Trace& trace, const Args& args) {
  auto* tuple = exception_args(trace, args[0]);
  return tuple->items.size() == 1 ? protocol::to_repr(trace, tuple->items[0]) : text_of_exception(trace, args);
}

Value* repr_of_exception(Trace& trace, const Args& args) {
  auto* tuple = exception_args(trace, args[0]);
  Value* inner = protocol::to_repr(trace, tuple->items.size() == 1 ? tuple->items[0] : tuple);
  PyObject* text = trace.constant_of(inner);
  if (!text) cannot(Reason::ArgumentKind, "repr() of an exception");
  std::string shown = utf8_of(text);
  std::string name = type_name(trace.see(args[0]));
  trace.classes.guard_names_in(name);
  return trace.text(name + (tuple->items.size() == 1 ? "(" + shown + ")" : shown));
}

/// BaseException.with_traceback. The traceback is not modelled: an exception that leaves the function is raised by an
/// uncompiled run.
Value* with_traceback(Trace& trace, const Args& args) {
  auto [self, traceback] = positional<2>(args, 2);
  if (!is_none(trace, traceback) && protocol::type_of(trace.see(traceback)) != &PyTraceBack_Type)
    cannot(Reason::ArgumentKind, "a traceback argument that is not a traceback");
  changing_exception(trace, self)->retraced = true;
  return self;
}

Value* add_note(Trace& trace, const Args& args) {
  static PyObject* const kNotes = intern("__notes__");
  auto [self, note] = positional<2>(args, 2);
  if (!PyType_IsSubtype(protocol::type_of(trace.see(note)), &PyUnicode_Type))
    cannot(Reason::ArgumentKind, "a note that is not a str");
  auto* object = object_argument(trace, self);
  Value* notes = trace.own_attribute(object, kNotes);
  if (!notes) trace.store_own_attribute(object, kNotes, notes = trace.list({}));
  changing_list(trace, notes)->own_items.push_back(note);
  return trace.none();
}

}  // namespace

/// Each builtin exception class has its own slot wrappers around the same C functions.
void register_exceptions() {
  auto* base = reinterpret_cast<PyTypeObject*>(PyExc_BaseException);
  Owned<> names = take(import_module("builtins"));
  PyObject *key, *item;
  Py_ssize_t at = 0;
  while (PyDict_Next(PyModule_GetDict(names.get()), &at, &key, &item)) {
    if (!PyType_Check(item)) continue;
    auto* type = reinterpret_cast<PyTypeObject*>(item);
    if (!PyType_IsSubtype(type, base)) continue;
    if (type->tp_init == base->tp_init) add_rows(type, Takes::Asked, {{"__init__", &init_exception}});
    if (type->tp_str == base->tp_str) add_rows(type, Takes::Asked, {{"__str__", &text_of_exception}});
    if (type->tp_repr == base->tp_repr) add_rows(type, Takes::Asked, {{"__repr__", &repr_of_exception}});
  }
  add_rows("builtins", Takes::Asked,
           {
               {"StopIteration.__init__", &init_exception},
               {"SystemExit.__init__", &init_exception},
               {"AttributeError.__init__", &init_exception},
               {"NameError.__init__", &init_exception},
               {"KeyError.__str__", &text_of_key_error},
               {"BaseException.with_traceback", &with_traceback},
               {"BaseException.add_note", &add_note},
           });
}

}  // namespace gramme::builtins
