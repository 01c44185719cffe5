// Filling protocol's tables from rows, argument parsing, and access to the content of builtin containers.
#include "builtins/python_support.h"

#include <cstring>

#include "base/imported.h"
#include "base/type_dict.h"
#include "builtins/keys.h"
#include "cpython/objects.h"
#include "protocol/special.h"

namespace gramme::builtins {

using value::Kind;

// ---- tables

void add_rows(const char* module, std::initializer_list<Row> rows) { add_rows(module, Takes::Unstated, rows); }

void add_rows(const char* module, Takes takes, std::initializer_list<Row> rows) {
  for (const Row& row : rows) protocol::add_model(module, row.name, row.model, takes);
}

void add_rows(const char* module, std::initializer_list<const char*> types, Takes takes,
              std::initializer_list<Row> rows) {
  for (const char* type : types)
    for (const Row& row : rows)
      protocol::add_model(module, (std::string(type) + "." + row.name).c_str(), row.model, takes);
}

void add_rows(PyTypeObject* type, std::initializer_list<Row> rows) { add_rows(type, Takes::Unstated, rows); }

void add_rows(PyTypeObject* type, Takes takes, std::initializer_list<Row> rows) {
  for (const Row& row : rows)
    if (PyObject* method = PyDict_GetItemString(type_dict(type), row.name))
      protocol::add_model(method, row.model, takes);
}

void add_rows(std::initializer_list<NamedRow> rows) {
  for (const NamedRow& row : rows) {
    const auto [module, name] = of_torch::place(row.name);
    protocol::add_model(module, name, row.model);
  }
}

void add_pure(std::initializer_list<of_torch::Name> names) {
  for (of_torch::Name id : names) {
    const auto [module, name] = of_torch::place(id);
    protocol::add_pure(module, name);
  }
}

void add_pure(const char* module, std::initializer_list<const char*> names) {
  for (const char* name : names) protocol::add_pure(module, name);
}

void add_pure_methods(PyTypeObject* type, std::initializer_list<const char*> except) {
  static const char* const kNever[] = {"__new__",     "__init__",        "__getattribute__", "__setattr__",
                                       "__delattr__", "__reduce__",      "__reduce_ex__",    "__getnewargs__",
                                       "__sizeof__",  "__iter__",        "__getstate__",     "__init_subclass__",
                                       "__class__",   "__subclasshook__"};
  PyObject *name, *member;
  Py_ssize_t at = 0;
  while (PyDict_Next(type_dict(type), &at, &name, &member)) {
    auto is = [&](const char* other) { return PyUnicode_CompareWithASCIIString(name, other) == 0; };
    if (std::any_of(std::begin(kNever), std::end(kNever), is) || std::any_of(except.begin(), except.end(), is))
      continue;
    if (Py_IS_TYPE(member, &PyMethodDescr_Type) || Py_IS_TYPE(member, &PyWrapperDescr_Type)) protocol::add_pure(member);
  }
}

PyObject* real(const char* module, const char* qualified_name) {
  Owned<> found = Owned<>::steal(import_module(module));
  std::string path = qualified_name;
  for (size_t at = 0; found && at != std::string::npos;) {
    size_t dot = path.find('.', at);
    found = Owned<>::steal(PyObject_GetAttrString(found.get(), path.substr(at, dot - at).c_str()));
    at = dot == std::string::npos ? dot : dot + 1;
  }
  if (!found) PyErr_Clear();
  return found.release();  // kept alive: callers store it in statics
}

// ---- arguments

void bind_into(const Args& args, size_t required, const char* const* names, size_t count, Value** out) {
  if (args.positional > count) cannot(Reason::ArgumentKind, "too many arguments");
  std::copy_n(args.values, args.positional, out);
  for (size_t k = 0; k < args.keywords; ++k) {
    size_t i = 0;
    while (names && i < count && (!*names[i] || PyUnicode_CompareWithASCIIString(args.names[k], names[i]) != 0)) ++i;
    if (!names || i == count || out[i]) cannot(Reason::ArgumentKind, "an unexpected keyword argument");
    out[i] = args.values[args.positional + k];
  }
  for (size_t i = 0; i < required; ++i)
    if (!out[i]) cannot(Reason::ArgumentKind, "a missing argument");
}

std::vector<Value*> all_positional(const Args& args, size_t from) {
  if (args.keywords) cannot(Reason::ArgumentKind, "an unexpected keyword argument");
  if (args.positional < from) cannot(Reason::ArgumentKind, "a missing argument");
  return {args.values + from, args.values + args.positional};
}

PyObject* name_argument(Trace& trace, Value* name) {
  PyObject* object = trace.constant_of(trace.see(name));
  if (!object || !PyUnicode_Check(object))
    protocol::raise_about(trace, PyExc_TypeError, "attribute name must be string, not '{}'", trace.see(name));
  if (!PyUnicode_CheckExact(object)) cannot(Reason::ArgumentKind, "an attribute name of a subclass of str");
  PyObject* interned = Py_NewRef(object);
  PyUnicode_InternInPlace(&interned);
  return trace.keep(Owned<>::steal(interned));
}

bool flag(Trace& trace, Value* argument, bool missing) { return argument ? protocol::truth(trace, argument) : missing; }

Py_ssize_t index_or(Trace& trace, Value* argument, Py_ssize_t missing) {
  return is_none(trace, argument) ? missing : protocol::index(trace, argument);
}

bool is_none(Trace& trace, Value* argument) {
  if (!argument) return true;
  Value* seen = trace.see(argument);
  return seen->kind == Kind::Constant && seen->object == Py_None;
}

const char* type_name(Value* seen) {
  const char* name = protocol::type_of(seen)->tp_name;
  const char* dot = std::strrchr(name, '.');
  return dot ? dot + 1 : name;
}

// ---- calling real functions

Owned<> call_real(Trace& trace, PyObject* function, std::initializer_list<PyObject*> args) {
  PyObject* result = PyObject_Vectorcall(function, args.begin(), args.size(), nullptr);
  if (!result) protocol::raise_current(trace);
  return Owned<>::steal(result);
}

Value* fold_or_stop(Trace& trace, PyObject* function, const Args& args, const char* name) {
  if (Value* result = protocol::fold(trace, function, args)) return result;
  cannot(Reason::ArgumentKind, name);
}

Value* pin(Trace& trace, Owned<> object) { return trace.wrap(object.get(), trace.pool->pinned(object.get())); }

Owned<> inert(Trace& trace, Value* value) {
  Value* seen = trace.see(value);
  const std::vector<Value*>* items = nullptr;
  if (auto* list = value::as<value::List>(seen)) items = &list->items();
  if (auto* tuple = value::as<value::Tuple>(seen); tuple && tuple->type == &PyTuple_Type) items = &tuple->items;
  if (!items && seen->kind != Kind::Constant && seen->kind != Kind::Number) return {};
  for (size_t i = 0; items && i < items->size(); ++i)
    if (!inert(trace, (*items)[i])) return {};
  return trace.concrete(seen);
}

PyObject* leaf(Trace& trace, Value* value) {
  Value* seen = trace.see(value);
  if (!seen->object || !seen->existing())
    cannot(Reason::ArgumentKind, std::string("a new object of type ") + type_name(seen));
  if (seen->source->kind != source::Kind::Pinned)
    trace.facts.add({.source = seen->source, .kind = guards::Kind::Identity, .object = share(seen->object)});
  return seen->object;
}

// ---- exceptions

void raise_key_error(Trace& trace, Value* key) {
  auto* type = reinterpret_cast<PyTypeObject*>(PyExc_KeyError);
  protocol::raise(trace, protocol::make_exception(trace, type, {key}));
}

void raise_stop_iteration(Trace& trace, Value* returned) {
  auto* type = reinterpret_cast<PyTypeObject*>(PyExc_StopIteration);
  std::vector<Value*> args;
  if (!is_none(trace, returned)) args.push_back(returned);
  protocol::raise(trace, protocol::make_exception(trace, type, std::move(args)));
}

// ---- containers

Value* free_variable(Trace& trace, value::Function* function, const char* name) {
  trace.describe(function);
  Owned<> names = take(PyObject_GetAttrString(reinterpret_cast<PyObject*>(function->code), "co_freevars"));
  for (size_t i = 0; i < function->closure.size(); ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names.get(), static_cast<Py_ssize_t>(i)), name) == 0)
      if (Value* content = trace.cell_content(trace.see_as<value::Cell>(function->closure[i]))) return content;
  cannot(Reason::ArgumentKind, std::string("a function without the free variable ") + name);
}

Value* as_key(Trace& trace, Value* key, KeyOf use) {
  static PyObject* const kHash = intern("__hash__");
  Value* seen = trace.see(key);
  if (auto* tuple = value::as<value::Tuple>(seen)) {
    Trace::Deeper deeper(trace);
    for (Value*& item : tuple->items)  // items first, because the error names the use of the tuple
      item = as_key(trace, item, GRAMME_PYTHON_KEYS_ARE_FOR ? KeyOf::Other : use);
  }
  if (PyObject* known = seen->kind == Kind::Number ? trace.constant_of(seen) : nullptr) seen = trace.constant(known);
  if (value::hashable(seen)) return seen;
  auto* set = value::as<value::Set>(seen);
  bool refused = seen->kind == Kind::List || seen->kind == Kind::Dict || seen->kind == Kind::Deque ||
                 (seen->kind == Kind::Slice && !GRAMME_PYTHON_SLICES_HASH) || seen->kind == Kind::Cell ||
                 seen->kind == Kind::Constant || (set && !set->frozen);
  refused = refused || protocol::forbidden(trace, seen, kHash);
  if (refused) protocol::raise_unhashable(trace, seen, seen, use);
  cannot(Reason::ArgumentKind, std::string("a key of type ") + type_name(seen));
}

Value* as_key(Trace& trace, Value* key) { return as_key(trace, key, KeyOf::Other); }

Value* payload(Trace& trace, value::Object* object) {
  if (object->type == &PyDictProxy_Type && !object->payload && object->existing()) {
    const source::Source* behind = trace.pool->child(object->source, source::Kind::ProxyMapping);
    object->payload = trace.see(trace.wrap(cpython::proxy_mapping(object->object), behind));
  }
  return object->payload ? trace.see(object->payload) : nullptr;
}

value::List* changing_list(Trace& trace, Value* self) {
  auto* list = content<value::List>(trace, self);
  trace.will_change(list);
  return list;
}

value::Deque* changing_deque(Trace& trace, Value* self) {
  auto* deque = content<value::Deque>(trace, self);
  trace.will_change(deque);
  return deque;
}

value::Set* changing_set(Trace& trace, Value* self) {
  auto* set = content<value::Set>(trace, self);
  if (set->frozen) cannot(Reason::ArgumentKind, "a frozenset changed");
  trace.will_change(set);
  return set;
}

value::Set* new_set(Trace& trace, bool frozen) {
  auto* set = trace.make<value::Set>();
  set->frozen = frozen;
  return set;
}

value::Object* object_argument(Trace& trace, Value* self) {
  auto* object = trace.see_as<value::Object>(self);
  if (!object) cannot(Reason::ArgumentKind, std::string("a method of object called on ") + type_name(trace.see(self)));
  return object;
}

PyTypeObject* class_argument(Trace& trace, Value* cls) {
  auto* found = trace.see_as<value::Class>(cls);
  if (!found) cannot(Reason::ArgumentKind, "a class made by a call gramme does not model");
  return found->type();
}

std::pair<Py_ssize_t, Py_ssize_t> clamp(Trace& trace, Value* start, Value* stop, Py_ssize_t size) {
  auto within = [&](Value* bound, Py_ssize_t missing) {
    if (!bound) return missing;
    Py_ssize_t at = protocol::index(trace, bound);
    return at < 0 ? std::max<Py_ssize_t>(at + size, 0) : at;
  };
  return {within(start, 0), std::min(within(stop, size), size)};
}

}  // namespace gramme::builtins
