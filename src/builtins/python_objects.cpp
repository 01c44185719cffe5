// Methods of object and type; types.SimpleNamespace and types.MethodType.
#include <algorithm>

#include "base/once.h"
#include "base/text.h"
#include "builtins/python_support.h"
#include "cpython/objects.h"
#include "protocol/texts.h"

namespace gramme::builtins {
namespace {

using value::Kind;

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
                  protocol::no_attribute_text(trace, protocol::type_of(trace.see(self)), attribute));
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

/// object.__ne__: the negated result of the class's __eq__.
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

/// type.__call__: __new__, then __init__ if that made an instance. A metaclass's __call__ was tried before.
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
  trace.classes.guard_mro(class_argument(trace, cls));
  PyObject* mro = class_argument(trace, cls)->tp_mro;
  std::vector<Value*> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i)
    items.push_back(protocol::class_value(trace, reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i))));
  return trace.list(std::move(items));
}

// ---- types

/// SimpleNamespace(**names), and its __init__.
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
  if (!protocol::callable(trace, function)) cannot(Reason::ArgumentKind, "a method made of what cannot be called");
  auto* method = trace.make<value::Method>();
  method->function = trace.see(function);
  method->self = trace.see(self);
  return method;
}

/// dict[str, int](…) as dict(…). Ends the segment for other classes, whose instances store the alias.
Value* call_alias(Trace& trace, const Args& args) {
  static constexpr PyTypeObject* kPlain[] = {&PyDict_Type, &PyList_Type, &PyTuple_Type, &PySet_Type, &PyFrozenSet_Type};
  Value* alias = args.positional ? trace.see(args[0]) : nullptr;
  if (!alias || !alias->object || !Py_IS_TYPE(alias->object, &Py_GenericAliasType))
    cannot(Reason::ArgumentKind, "types.GenericAlias.__call__");
  Owned<> origin = take(PyObject_GetAttrString(alias->object, "__origin__"));
  if (std::ranges::find(kPlain, reinterpret_cast<PyTypeObject*>(origin.get())) == std::end(kPlain))
    cannot(Reason::CallUnknown, "a generic alias of a class that remembers it");
  if (alias->source) trace.facts.add({alias->source, guards::Kind::Identity, share(alias->object)});
  return protocol::call(trace, trace.pinned(origin.get()),
                        {args.values + 1, args.positional - 1, args.names, args.keywords});
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
  add_rows("types", Takes::Asked,
           {
               {"GenericAlias.__call__", &call_alias},
               {"SimpleNamespace", &make_namespace},
               {"SimpleNamespace.__init__", &init_namespace},
               {"MethodType", &make_method},
           });
}

}  // namespace gramme::builtins
