// The module operator: operators as functions, and itemgetter, attrgetter, methodcaller.
#include <opcode.h>

#include "base/once.h"
#include "builtins/python_support.h"
#include "protocol/answers.h"
#include "protocol/special.h"

namespace gramme::builtins {
namespace {

using value::Kind;

template <int op>
Value* binary(Trace& trace, const Args& args) {
  auto [left, right] = positional<2>(args, 2);
  return protocol::binary(trace, op, left, right);
}

template <protocol::Unary op>
Value* unary(Trace& trace, const Args& args) {
  auto [operand] = positional<1>(args, 1);
  return protocol::unary(trace, op, operand);
}

template <int op>
Value* compare(Trace& trace, const Args& args) {
  auto [left, right] = positional<2>(args, 2);
  return protocol::compare(trace, op, left, right);
}

template <bool wanted>
Value* same(Trace& trace, const Args& args) {
  auto [left, right] = positional<2>(args, 2);
  return trace.boolean(protocol::same(trace, left, right) == wanted);
}

Value* truth(Trace& trace, const Args& args) {
  auto [operand] = positional<1>(args, 1);
  return trace.boolean(protocol::truth(trace, operand));
}

/// operator.index: an int stays what it is.
Value* index(Trace& trace, const Args& args) {
  static PyObject* const kIndex = intern("__index__");
  PyObject* const real_index = once([] { return real("operator", "index"); });
  auto [operand] = positional<1>(args, 1);
  Value* seen = trace.see(operand);
  if (seen->kind == Kind::Tensor) cannot(Reason::DataDependentValue, "operator.index() of a tensor");
  if (auto* number = value::as<value::Number>(seen); number && number->type == &PyLong_Type) return number;
  if (protocol::extends(seen, &PyLong_Type)) {  // its own __index__ is not called
    Value* held = protocol::payload_of(seen);
    return held ? held : fold_or_stop(trace, real_index, args, "operator.index");
  }
  if (seen->kind == Kind::Object)
    if (Value* method = protocol::special_method(trace, seen, kIndex))
      return protocol::answer(trace, protocol::Answer::of_index, method);
  return fold_or_stop(trace, real_index, args, "operator.index");
}

// ---- items

Value* get_item(Trace& trace, const Args& args) {
  auto [object, key] = positional<2>(args, 2);
  return protocol::get_item(trace, object, key);
}
Value* set_item(Trace& trace, const Args& args) {
  auto [object, key, item] = positional<3>(args, 3);
  protocol::set_item(trace, object, key, item);
  return trace.none();
}
Value* delete_item(Trace& trace, const Args& args) {
  auto [object, key] = positional<2>(args, 2);
  protocol::delete_item(trace, object, key);
  return trace.none();
}
Value* contains(Trace& trace, const Args& args) {
  auto [container, item] = positional<2>(args, 2);
  return protocol::contains(trace, container, item);
}

Value* count_of(Trace& trace, const Args& args) {
  auto [iterable, item] = positional<2>(args, 2);
  int64_t count = 0;
  Value* iterator = protocol::get_iterator(trace, iterable);
  while (Value* other = protocol::next(trace, iterator)) count += protocol::equal(trace, other, item);
  return trace.integer(count);
}

Value* index_of(Trace& trace, const Args& args) {
  auto [iterable, item] = positional<2>(args, 2);
  Value* iterator = protocol::get_iterator(trace, iterable);
  for (int64_t at = 0; Value* other = protocol::next(trace, iterator); ++at)
    if (protocol::equal(trace, other, item)) return trace.integer(at);
  protocol::raise(trace, PyExc_ValueError, "sequence.index(x): x not in sequence");
}

/// operator.concat and iconcat: sequences only.
template <int op>
Value* concatenate(Trace& trace, const Args& args) {
  auto [left, right] = positional<2>(args, 2);
  PyTypeObject* type = protocol::type_of(trace.see(left));
  if (!type->tp_as_sequence || !type->tp_as_sequence->sq_concat || (type->tp_flags & Py_TPFLAGS_HEAPTYPE))
    cannot(Reason::ArgumentKind, std::string("operator.concat() of a ") + type->tp_name);
  return protocol::binary(trace, op, left, right);
}

Value* length_hint(Trace& trace, const Args& args) {
  auto [object, missing] = positional<2>(args, 1);
  Value* seen = trace.see(object);
  PyObject* otherwise = missing ? trace.constant_of(missing) : nullptr;
  if (missing && !(otherwise && PyLong_CheckExact(otherwise)))
    cannot(Reason::ArgumentKind, "operator.length_hint() with a default that is not an int");
  if (seen->kind == Kind::Object && !protocol::payload_of(seen)) {
    Value* hint = protocol::length_hint(trace, seen);
    return hint ? hint : missing ? missing : trace.integer(0);
  }
  if (seen->kind == Kind::Iterator || seen->kind == Kind::Generator)
    cannot(Reason::ArgumentKind, std::string("operator.length_hint() of ") + type_name(seen));
  int64_t length = 0;
  bool none = raises(trace, PyExc_TypeError, [&, subject = object] { length = protocol::length(trace, subject); });
  if (none && missing) return missing;
  return trace.integer(length);
}

Value* call(Trace& trace, const Args& args) {
  if (args.positional < 1) cannot(Reason::ArgumentKind, "operator.call without a callable");
  return protocol::call(trace, args[0], rest(args, 1));
}

// ---- itemgetter, attrgetter, methodcaller: real objects made of constants, held by the segment

template <Text name>
Value* make_getter(Trace& trace, const Args& args) {
  PyObject* const type = once([] { return real("operator", name.text); });
  std::vector<Owned<>> held;
  std::vector<PyObject*> values;
  for (size_t i = 0; i < args.positional + args.keywords; ++i) {
    held.push_back(trace.concrete(args[i]));
    if (!held.back()) cannot(Reason::ArgumentKind, "operator." + std::string(name.text) + " of no constant");
    values.push_back(held.back().get());
  }
  Owned<> names = take(PyTuple_New(static_cast<Py_ssize_t>(args.keywords)));
  for (size_t k = 0; k < args.keywords; ++k)
    PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(k), share(args.names[k]).release());
  PyObject* getter = PyObject_Vectorcall(type, values.data(), args.positional, args.keywords ? names.get() : nullptr);
  if (!getter) protocol::raise_current(trace);
  return pin(trace, Owned<>::steal(getter));
}

/// The object's parts as given to pickle: the callable and its arguments.
std::pair<Owned<>, Owned<>> parts_of(Trace& trace, Value* getter) {
  Owned<> reduced = take(PyObject_CallMethod(leaf(trace, getter), "__reduce__", nullptr));
  return {share(PyTuple_GET_ITEM(reduced.get(), 0)), share(PyTuple_GET_ITEM(reduced.get(), 1))};
}

/// The result for a single part, or a tuple for several.
template <class Get>
Value* get_each(Trace& trace, PyObject* parts, Get&& get) {
  std::vector<Value*> results;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); ++i) results.push_back(get(PyTuple_GET_ITEM(parts, i)));
  return results.size() == 1 ? results[0] : trace.tuple(std::move(results));
}

Value* call_itemgetter(Trace& trace, const Args& args) {
  auto [self, object] = positional<2>(args, 2);
  auto [type, keys] = parts_of(trace, self);
  return get_each(trace, keys.get(), [&, target = object](PyObject* key) {
    return protocol::get_item(trace, target, trace.adopt(share(key)));
  });
}

Value* call_attrgetter(Trace& trace, const Args& args) {
  static PyObject* const dot = PyUnicode_FromString(".");
  auto [self, object] = positional<2>(args, 2);
  auto [type, paths] = parts_of(trace, self);
  return get_each(trace, paths.get(), [&, target = object](PyObject* path) {
    Value* found = target;
    Owned<> names = take(PyUnicode_Split(path, dot, -1));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i)
      found =
          protocol::get_attribute(trace, found, name_argument(trace, trace.constant(PyList_GET_ITEM(names.get(), i))));
    return found;
  });
}

Value* call_methodcaller(Trace& trace, const Args& args) {
  auto [self, object] = positional<2>(args, 2);
  auto [maker, given] = parts_of(trace, self);
  value::Attributes keywords;
  PyObject* name = nullptr;
  if (PyType_Check(maker.get())) {
    name = PyTuple_GET_ITEM(given.get(), 0);
  } else {  // partial(methodcaller, name, **keywords)
    Owned<> first = take(PyObject_GetAttrString(maker.get(), "args"));
    Owned<> named = take(PyObject_GetAttrString(maker.get(), "keywords"));
    name = trace.keep(share(PyTuple_GET_ITEM(first.get(), 0)));
    PyObject *key, *item;
    Py_ssize_t at = 0;
    while (PyDict_Next(named.get(), &at, &key, &item))
      keywords.push_back({trace.keep(share(key)), trace.adopt(share(item))});
  }
  std::vector<Value*> values;
  for (Py_ssize_t i = PyType_Check(maker.get()) ? 1 : 0; i < PyTuple_GET_SIZE(given.get()); ++i)
    values.push_back(trace.adopt(share(PyTuple_GET_ITEM(given.get(), i))));
  Value* method = protocol::get_attribute(trace, object, name_argument(trace, trace.constant(name)));
  return protocol::call_with(trace, method, values, keywords);
}

void register_operators() {
#define BINARY(name, op) {#name, &binary<NB_##op>}, {"i" #name, &binary<NB_INPLACE_##op>}
  add_rows("operator", Takes::Asked,
           {
               BINARY(add, ADD),
               BINARY(sub, SUBTRACT),
               BINARY(mul, MULTIPLY),
               BINARY(truediv, TRUE_DIVIDE),
               BINARY(floordiv, FLOOR_DIVIDE),
               BINARY(mod, REMAINDER),
               BINARY(pow, POWER),
               BINARY(matmul, MATRIX_MULTIPLY),
               BINARY(lshift, LSHIFT),
               BINARY(rshift, RSHIFT),
               BINARY(xor, XOR),
               {"and_", &binary<NB_AND>},
               {"iand", &binary<NB_INPLACE_AND>},
               {"or_", &binary<NB_OR>},
               {"ior", &binary<NB_INPLACE_OR>},
               {"concat", &concatenate<NB_ADD>},
               {"iconcat", &concatenate<NB_INPLACE_ADD>},
               {"lt", &compare<Py_LT>},
               {"le", &compare<Py_LE>},
               {"eq", &compare<Py_EQ>},
               {"ne", &compare<Py_NE>},
               {"gt", &compare<Py_GT>},
               {"ge", &compare<Py_GE>},
               {"neg", &unary<protocol::Unary::Negative>},
               {"pos", &unary<protocol::Unary::Positive>},
               {"inv", &unary<protocol::Unary::Invert>},
               {"invert", &unary<protocol::Unary::Invert>},
               {"not_", &unary<protocol::Unary::Not>},
           });
#undef BINARY
}

}  // namespace

void register_operator() {
  register_operators();
  add_rows("operator", Takes::Asked,
           {
               {"truth", &truth},
               {"is_", &same<true>},
               {"is_not", &same<false>},
               {"index", &index},
               {"getitem", &get_item},
               {"setitem", &set_item},
               {"delitem", &delete_item},
               {"contains", &contains},
               {"countOf", &count_of},
               {"indexOf", &index_of},
               {"call", &call},
               {"length_hint", &length_hint},
               {"itemgetter", &make_getter<"itemgetter">},
               {"attrgetter", &make_getter<"attrgetter">},
               {"methodcaller", &make_getter<"methodcaller">},
               {"itemgetter.__call__", &call_itemgetter},
               {"attrgetter.__call__", &call_attrgetter},
               {"methodcaller.__call__", &call_methodcaller},
           });
}

}  // namespace gramme::builtins
