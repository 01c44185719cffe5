// What every class inherits: object and type, exceptions; and types.SimpleNamespace, types.MethodType, abc's decisions.
#include "base/once.h"
#include "builtins/python_support.h"
#include "cpython/objects.h"

namespace gramme::builtins {
namespace {

using value::Kind;

value::Object* object_argument(Trace& trace, Value* self) {
  auto* object = trace.see_as<value::Object>(self);
  if (!object) cannot(Reason::ArgumentKind, std::string("a method of object called on ") + type_name(trace.see(self)));
  return object;
}

Value* not_implemented(Trace& trace) { return trace.constant(Py_NotImplemented); }

bool is_not_implemented(Value* value) { return value->kind == Kind::Constant && value->object == Py_NotImplemented; }

// ---- object

Value* init_object(Trace& trace, const Args& args) {
  static PyObject* const kNew = intern("__new__");
  static PyObject* const kInit = intern("__init__");
  if (args.positional > 1 || args.keywords) {
    PyTypeObject* type = protocol::type_of(trace.see(args[0]));
    auto own = [&](PyObject* name) {
      return trace.type_lookup(type, name) != trace.type_lookup(&PyBaseObject_Type, name);
    };
    if (own(kInit) || !own(kNew)) cannot(Reason::ArgumentKind, "object.__init__ with excess arguments");
  }
  return trace.none();
}

Value* nothing(Trace& trace, const Args&) { return trace.none(); }
Value* no_opinion(Trace& trace, const Args&) { return not_implemented(trace); }

Value* get_attribute_of_object(Trace& trace, const Args& args) {
  auto [self, name] = positional<2>(args, 2);
  PyObject* attribute = name_argument(trace, name);
  if (Value* found = protocol::generic_get_attribute(trace, self, attribute)) return found;
  protocol::raise(trace, PyExc_AttributeError,
                  std::string("'") + type_name(trace.see(self)) + "' object has no attribute '" +
                      PyUnicode_AsUTF8(attribute) + "'");
}

Value* set_attribute_of_object(Trace& trace, const Args& args) {
  auto [self, name, item] = positional<3>(args, 3);
  protocol::generic_set_attribute(trace, self, name_argument(trace, name), item);
  return trace.none();
}

Value* delete_attribute_of_object(Trace& trace, const Args& args) {
  auto [self, name] = positional<2>(args, 2);
  protocol::generic_set_attribute(trace, self, name_argument(trace, name), nullptr);
  return trace.none();
}

Value* equal_objects(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  return protocol::same(trace, self, other) ? trace.boolean(true) : not_implemented(trace);
}

/// object.__ne__ turns around what the class's own __eq__ says.
Value* unequal_objects(Trace& trace, const Args& args) {
  static PyObject* const kEq = intern("__eq__");
  auto [self, other] = positional<2>(args, 2);
  Value* method = protocol::special_method(trace, self, kEq);
  if (!method) return not_implemented(trace);
  Value* equal = trace.see(protocol::call(trace, method, {other}));
  return is_not_implemented(equal) ? equal : trace.boolean(!protocol::truth(trace, equal));
}

Value* text_of_object(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  return protocol::to_repr(trace, self);
}

Value* format_object(Trace& trace, const Args& args) {
  auto [self, spec] = positional<2>(args, 2);
  PyObject* text = trace.constant_of(trace.see(spec));
  if (!text || !PyUnicode_Check(text) || PyUnicode_GET_LENGTH(text) != 0)
    cannot(Reason::ArgumentKind, "a format specification for an object without __format__");
  return protocol::to_str(trace, self);
}

// ---- type

/// type.__call__: __new__, then __init__ if it made an instance. The metaclass has had its say already.
Value* call_type(Trace& trace, const Args& args) {
  static PyObject* const kNew = intern("__new__");
  static PyObject* const kInit = intern("__init__");
  if (args.positional < 1) cannot(Reason::ArgumentKind, "type.__call__ without a class");
  PyTypeObject* type = class_argument(trace, args[0]);
  Args given = rest(args, 1);
  if (auto model = protocol::find_model(reinterpret_cast<PyObject*>(type))) return model(trace, given);
  Value* made = trace.see(protocol::call(trace, protocol::get_attribute(trace, args[0], kNew), args));
  if (!trace.is_subtype(protocol::type_of(made), type)) return made;
  Value* init = protocol::special_method(trace, made, kInit);
  Value* result = init ? trace.see(protocol::call(trace, init, given)) : trace.none();
  if (!is_none(trace, result))
    protocol::raise(trace, PyExc_TypeError,
                    std::string("__init__() should return None, not '") + type_name(result) + "'");
  return made;
}

Value* type_has_instance(Trace& trace, const Args& args) {
  auto [cls, object] = positional<2>(args, 2);
  return trace.boolean(trace.is_subtype(protocol::type_of(trace.see(object)), class_argument(trace, cls)));
}

Value* type_has_subclass(Trace& trace, const Args& args) {
  auto [cls, subclass] = positional<2>(args, 2);
  return trace.boolean(trace.is_subtype(class_argument(trace, subclass), class_argument(trace, cls)));
}

Value* mro_of(Trace& trace, const Args& args) {
  auto [cls] = positional<1>(args, 1);
  trace.guard_mro(class_argument(trace, cls));
  PyObject* mro = class_argument(trace, cls)->tp_mro;
  std::vector<Value*> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i)
    items.push_back(protocol::class_value(trace, reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i))));
  return trace.list(std::move(items));
}

// ---- abc: isinstance and issubclass of abstract base classes

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

// ---- exceptions

Value* init_exception(Trace& trace, const Args& args) {
  object_argument(trace, args[0])->payload = trace.tuple(all_positional(args, 1));
  return trace.none();
}

value::Tuple* exception_args(Trace& trace, Value* self) {
  auto* object = object_argument(trace, self);
  auto* tuple = object->payload ? trace.see_as<value::Tuple>(object->payload) : nullptr;
  if (!tuple) cannot(Reason::ArgumentKind, "the arguments of an exception made before the capture");
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
  std::string shown = PyUnicode_AsUTF8(text);
  std::string name = type_name(trace.see(args[0]));
  trace.guard_names_in(name);
  return trace.text(name + (tuple->items.size() == 1 ? "(" + shown + ")" : shown));
}

/// The traceback is not modelled: an exception that leaves the function is raised again by a plain run.
Value* with_traceback(Trace& trace, const Args& args) {
  auto [self, traceback] = positional<2>(args, 2);
  object_argument(trace, self)->retraced = true;
  return self;
}

Value* add_note(Trace& trace, const Args& args) {
  static PyObject* const kNotes = intern("__notes__");
  auto [self, note] = positional<2>(args, 2);
  auto* object = object_argument(trace, self);
  Value* notes = trace.own_attribute(object, kNotes);
  if (!notes) trace.store_own_attribute(object, kNotes, notes = trace.list({}));
  changing_list(trace, notes)->own_items.push_back(note);
  return trace.none();
}

/// Each builtin exception class has its own slot wrappers around the same C functions.
void register_exceptions() {
  auto* base = reinterpret_cast<PyTypeObject*>(PyExc_BaseException);
  Owned<> names = take(PyImport_ImportModule("builtins"));
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

// ---- types

/// Stands for SimpleNamespace(**names) and for its __init__.
Value* init_namespace(Trace& trace, const Args& args) {
  auto* object = object_argument(trace, args[0]);
  if (args.positional > 1) cannot(Reason::ArgumentKind, "SimpleNamespace with positional arguments");
  for (size_t k = 0; k < args.keywords; ++k)
    trace.store_own_attribute(object, args.names[k], args[args.positional + k]);
  return trace.none();
}

Value* make_namespace(Trace& trace, const Args& args) {
  PyObject* const type = once([] { return real("types", "SimpleNamespace"); });
  auto* object = trace.make<value::Object>();
  object->type = reinterpret_cast<PyTypeObject*>(type);
  std::vector<Value*> values = {object};
  values.insert(values.end(), args.values, args.values + args.positional + args.keywords);
  init_namespace(trace, {values.data(), args.positional + 1, args.names, args.keywords});
  return object;
}

Value* make_method(Trace& trace, const Args& args) {
  auto [function, self] = positional<2>(args, 2);
  if (is_none(trace, self)) cannot(Reason::ArgumentKind, "a method of None");
  auto* method = trace.make<value::Method>();
  method->function = trace.see(function);
  method->self = trace.see(self);
  return method;
}

}  // namespace

void register_objects() {
  add_rows(&PyBaseObject_Type, Takes::Asked,
           {
               {"__init__", &init_object},
               {"__init_subclass__", &nothing},
               {"__subclasshook__", &no_opinion},
               {"__getattribute__", &get_attribute_of_object},
               {"__setattr__", &set_attribute_of_object},
               {"__delattr__", &delete_attribute_of_object},
               {"__eq__", &equal_objects},
               {"__ne__", &unequal_objects},
               {"__lt__", &no_opinion},
               {"__le__", &no_opinion},
               {"__gt__", &no_opinion},
               {"__ge__", &no_opinion},
               {"__str__", &text_of_object},
               {"__format__", &format_object},
           });
  add_rows(&PyModule_Type, Takes::Asked, {{"__getattribute__", &get_attribute_of_object}});
  add_rows(&PyType_Type, Takes::Asked,
           {
               {"__call__", &call_type},
               {"__instancecheck__", &type_has_instance},
               {"__subclasscheck__", &type_has_subclass},
               {"mro", &mro_of},
           });
  add_rows("_abc", Takes::Asked,
           {{"_abc_instancecheck", &abc_has_instance}, {"_abc_subclasscheck", &abc_has_subclass}});
  register_exceptions();
  add_rows("types", Takes::Asked,
           {
               {"SimpleNamespace", &make_namespace},
               {"SimpleNamespace.__init__", &init_namespace},
               {"MethodType", &make_method},
           });
}

}  // namespace gramme::builtins
