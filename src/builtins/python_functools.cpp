// functools: partial, reduce, cached_property, singledispatch, cmp_to_key.
#include "base/once.h"
#include "builtins/python_support.h"
#include "cpython/features.h"
#include "protocol/attributes.h"
#include "trace/partials.h"

namespace gramme::builtins {
namespace {

using value::Kind;
using value::Object;

void set_keyword(value::Attributes& keywords, PyObject* name, Value* item) {
  for (auto& keyword : keywords)
    if (PyUnicode_Compare(keyword.name, name) == 0) {
      keyword.value = item;
      return;
    }
  keywords.push_back({name, item});
}

/// partial(f, …); a partial of a partial is one partial, as CPython makes it.
Value* make_partial(Trace& trace, const Args& args) {
  if (args.positional < 1) cannot(Reason::ArgumentKind, "partial() without a function");
  for (size_t i = 0; i < args.positional + args.keywords; ++i)  // as classes' arguments, before they are seen below
    if (!trace.scope().shown().look_for_constant(args[i])) break;
  for (size_t i = 0; GRAMME_PYTHON_PARTIALS_BIND && i < args.positional + args.keywords; ++i)
    if (trace::is_open_place(trace.see(args[i])->object)) cannot(Reason::ArgumentKind, "partial() with a Placeholder");
  auto* partial = trace.make<value::Partial>();
  partial->function = trace.see(args[0]);
  if (!protocol::callable(trace, partial->function))
    protocol::raise(trace, PyExc_TypeError, "the first argument must be callable");
  if (auto* inner = value::as<value::Partial>(partial->function)) {
    partial->function = inner->function;
    partial->args = inner->args;
    partial->keywords = protocol::partial_keywords(trace, inner);
  }
  partial->args.insert(partial->args.end(), args.values + 1, args.values + args.positional);
  for (size_t k = 0; k < args.keywords; ++k) set_keyword(partial->keywords, args.names[k], args[args.positional + k]);
  return partial;
}

Value* reduce(Trace& trace, const Args& args) {
  auto [function, iterable, initial] = positional<3>(args, 2);
  Value* iterator = protocol::get_iterator(trace, iterable);
  Value* result = initial ? initial : protocol::next(trace, iterator);
  if (!result) protocol::raise(trace, PyExc_TypeError, "reduce() of empty iterable with no initial value");
  while (Value* item = protocol::next(trace, iterator)) result = protocol::call(trace, function, {result, item});
  return result;
}

/// __get__ of functions and lru_cache wrappers: a method, or the function itself for access through the class.
Value* get_function(Trace& trace, const Args& args) {
  auto [self, object, type] = positional<3>(args, 2);
  if (is_none(trace, object)) return trace.see(self);
  auto* method = trace.make<value::Method>();
  method->function = trace.see(self);
  method->self = trace.see(object);
  return method;
}

/// cached_property.__get__ without its lock: the instance dict's entry, else the function's result, stored there.
Value* get_cached_property(Trace& trace, const Args& args) {
  static PyObject* const kName = intern("attrname");
  static PyObject* const kFunction = intern("func");
  static PyObject* const kDict = intern("__dict__");
  auto [self, object, type] = bind(args, 2, {"", "instance", "owner"});
  auto* property = trace.see_as<Object>(self);
  if (is_none(trace, object)) return trace.see(self);
  auto* instance = trace.see_as<Object>(object);
  Value* name = property ? trace.own_attribute(property, kName) : nullptr;
  PyObject* dict = instance ? trace.type_lookup(instance->type, kDict) : nullptr;
  if (!dict || !Py_IS_TYPE(dict, &PyGetSetDescr_Type) || is_none(trace, name))
    cannot(Reason::ArgumentKind, "cached_property without a name, or of an object without a dict");
  PyObject* attribute = name_argument(trace, name);
  if (Value* known = trace.own_attribute(instance, attribute)) return known;
  Value* result = protocol::call(trace, trace.own_attribute(property, kFunction), {instance});
  trace.store_own_attribute(instance, attribute, result);
  return result;
}

/// partialmethod.__get__ of a plain function through an instance.
Value* get_partial_method(Trace& trace, const Args& args) {
  static PyObject* const kFields[] = {intern("func"), intern("args"), intern("keywords"), intern("__self__")};
  auto [self, object, type] = bind(args, 2, {"", "obj", "cls"});
  auto* made = trace.see_as<Object>(self);
  auto field = [&](int i) { return made ? trace.own_attribute(made, kFields[i]) : nullptr; };
  auto* function = field(0) ? trace.see_as<value::Function>(field(0)) : nullptr;
  if (!function || is_none(trace, object))
    cannot(Reason::ArgumentKind, "a partialmethod of anything but a Python function");
  auto* bound = trace.make<value::Method>();
  bound->function = function;
  bound->self = trace.see(object);
  auto* partial = trace.make<value::Partial>();
  partial->function = bound;
  partial->args = protocol::items_of(trace, field(1));
  auto* keywords = trace.see_as<value::Dict>(field(2));
  trace.load(keywords);
  keywords->entries.each(
      [&](auto& entry) { partial->keywords.push_back({name_argument(trace, entry.key), entry.value}); });
  partial->attributes.push_back({kFields[3], bound->self});
  return partial;
}

// ---- singledispatch

/// True if issubclass() for the class depends only on the MRO.
bool decides_by_mro(Trace& trace, value::Class* cls) {
  static PyObject* const kCheck = intern("__subclasscheck__");
  return cls && trace.type_lookup(Py_TYPE(cls->object), kCheck) == trace.type_lookup(&PyType_Type, kCheck);
}

/// dispatch(cls): the choice without its cache, which the capture may track. Guarded by the registered classes.
Value* dispatch(Trace& trace, value::Function* function, const Args& args) {
  auto [cls] = positional<1>(args, 1);
  auto* registry = trace.see_as<value::Dict>(free_variable(trace, function, "registry"));
  if (!registry || !registry->existing() || registry->written)
    cannot(Reason::ArgumentKind, "functools.singledispatch of another version");
  trace.load(registry);
  registry->entries.each([&](auto& entry) {
    if (!decides_by_mro(trace, trace.see_as<value::Class>(entry.key)))
      cannot(Reason::OpaqueCallback, "functools.singledispatch over classes that decide themselves what is below them");
  });
  Owned<> chosen = call_real(trace, real("functools", "_find_impl"),
                             {reinterpret_cast<PyObject*>(class_argument(trace, cls)), registry->object});
  Value* result = nullptr;
  registry->entries.each([&](auto& entry) {
    if (Value* candidate = entry.value; !result && candidate->object == chosen.get()) result = candidate;
  });
  if (!result) GRAMME_BUG("singledispatch chose what is not registered");
  return trace.see(result);
}

// ---- cmp_to_key: instances of the C type behind it. What they hold is kept as attributes; a factory's object is a
// Super, which no segment can rebuild, so neither the factory nor its keys leave the capture.

PyTypeObject* key_type() {
  PyObject* const factory = once([] {
    Owned<> made = take(PyObject_CallOneArg(real("functools", "cmp_to_key"), real("operator", "sub")));
    return made.release();
  });
  return Py_TYPE(factory);
}

PyObject* const* key_fields() {
  static PyObject* const kFields[] = {intern("cmp"), intern("obj")};
  return kFields;
}

Object* make_key(Trace& trace, Value* compare, Value* object) {
  auto* key = trace.make<Object>();
  key->type = key_type();
  key->attributes.push_back({key_fields()[0], compare});
  key->attributes.push_back({key_fields()[1], object});
  return key;
}

Object* key_argument(Trace& trace, Value* value) {
  auto* key = trace.see_as<Object>(value);
  if (!key || key->type != key_type() || key->existing()) cannot(Reason::ArgumentKind, "a key of functools.cmp_to_key");
  return key;
}

Value* cmp_to_key(Trace& trace, const Args& args) {
  auto [compare] = bind(args, 1, {"mycmp"});
  return make_key(trace, compare, trace.make<value::Super>());
}

Value* call_key(Trace& trace, const Args& args) {
  auto [self, object] = bind(args, 2, {"", "obj"});
  return make_key(trace, key_argument(trace, self), object);
}

/// key(a) < key(b) asks whether cmp(a, b) < 0.
template <int op>
Value* compare_keys(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  Object *left = key_argument(trace, self), *right = key_argument(trace, other);
  Object* factory = key_argument(trace, left->attributes.at(0).value);
  Value* result = protocol::call(trace, factory->attributes.at(0).value,
                                 {left->attributes.at(1).value, right->attributes.at(1).value});
  return protocol::compare(trace, op, result, trace.integer(0));
}

}  // namespace

void register_functools() {
  add_rows(key_type(), Takes::Asked,
           {
               {"__call__", &call_key},
               {"__lt__", &compare_keys<Py_LT>},
               {"__le__", &compare_keys<Py_LE>},
               {"__eq__", &compare_keys<Py_EQ>},
               {"__ne__", &compare_keys<Py_NE>},
               {"__gt__", &compare_keys<Py_GT>},
               {"__ge__", &compare_keys<Py_GE>},
           });
  add_rows("functools", Takes::Asked,
           {
               {"cmp_to_key", &cmp_to_key},
               {"partial", &make_partial},
               {"reduce", &reduce},
               {"_lru_cache_wrapper.__get__", &get_function},
               {"cached_property.__get__", &get_cached_property},
               {"partialmethod.__get__", &get_partial_method},
           });
  add_rows(&PyFunction_Type, Takes::Asked, {{"__get__", &get_function}});
  protocol::add_function_model("functools.py", "singledispatch.<locals>.dispatch", &dispatch);
}

}  // namespace gramme::builtins
