// dict, OrderedDict, defaultdict, obj.__dict__, mappingproxy: constructors and methods.
#include <opcode.h>

#include "base/once.h"
#include "builtins/keys.h"
#include "builtins/python_mapping.h"

namespace gramme::builtins {

using value::Dict;
using value::InstanceDict;
using value::Kind;
using value::Object;
using value::View;

namespace {

Dict* new_dict(Trace& trace, PyTypeObject* type) {
  Dict* dict = trace.dict();
  dict->type = type;
  return dict;
}

PyTypeObject* ordered_dict_type() { return &PyODict_Type; }
PyTypeObject* default_dict_type() {
  PyObject* const type = once([] { return real("collections", "defaultdict"); });
  return reinterpret_cast<PyTypeObject*>(type);
}

/// The mapping that `self.update()` fills.
Mapping updated(Trace& trace, Value* self) {
  Mapping result = Mapping::self(trace, self);
  if (trace.see(self)->kind == Kind::Object && result.dict() && result.dict()->type == ordered_dict_type())
    result.store_through(trace.see(self));
  return result;
}

void update_from_args(Trace& trace, Mapping& into, const Args& args, size_t from) {
  if (args.positional > from + 1) cannot(Reason::ArgumentKind, "too many arguments");
  update_mapping(trace, into, args.positional > from ? args[from] : nullptr, args);
}

template <PyTypeObject* (*type)()>
Value* make(Trace& trace, const Args& args) {
  Dict* dict = new_dict(trace, type());
  Mapping into = Mapping::self(trace, dict);
  update_from_args(trace, into, args, 0);
  return dict;
}
PyTypeObject* dict_type() { return &PyDict_Type; }

Value* make_default_dict(Trace& trace, const Args& args) {
  Dict* dict = new_dict(trace, default_dict_type());
  if (args.positional > 0 && !is_none(trace, args[0])) {
    dict->factory = args[0];
    if (!protocol::callable(trace, args[0]))
      protocol::raise(trace, PyExc_TypeError, "first argument must be callable or None");
  }
  Mapping into = Mapping::self(trace, dict);
  update_from_args(trace, into, args, std::min<size_t>(args.positional, 1));
  return dict;
}

Value* init_dict(Trace& trace, const Args& args) {
  if (args.positional < 1) cannot(Reason::ArgumentKind, "dict.__init__ without an instance");
  Mapping self = updated(trace, args[0]);
  update_from_args(trace, self, args, 1);
  return trace.none();
}

Value* init_default_dict(Trace& trace, const Args& args) {
  Mapping self = Mapping::self(trace, args[0]);
  Value* factory = args.positional > 1 && !is_none(trace, args[1]) ? args[1] : nullptr;
  if (trace.see(args[0])->existing() || (factory && !protocol::callable(trace, factory)))
    cannot(Reason::ArgumentKind,
           "defaultdict.__init__ of a dict created before the capture, or with a default that is not a function");
  self.dict()->factory = factory;
  update_from_args(trace, self, args, std::min<size_t>(args.positional, 2));
  return trace.none();
}

Value* make_proxy(Trace& trace, const Args& args) {
  auto [mapping] = bind(args, 1, {"mapping"});
  Value* seen = trace.see(mapping);
  if (seen->kind != Kind::Dict) cannot(Reason::ArgumentKind, std::string("mappingproxy() of ") + type_name(seen));
  auto* result = trace.make<Object>();
  result->type = &PyDictProxy_Type;
  result->payload = seen;
  return result;
}

/// dict.fromkeys(iterable, value): args[0] is the class.
Value* from_keys(Trace& trace, const Args& args) {
  auto [cls, iterable, item] = positional<3>(args, 2);
  Value* result = protocol::call(trace, cls, {});
  auto into = Mapping::of(trace, trace.see(result));
  if (!into) cannot(Reason::ArgumentKind, "fromkeys of a class that is not a dict");
  Value* iterator = protocol::get_iterator(trace, iterable);
  while (Value* key = protocol::next(trace, iterator)) into->set(key, item ? item : trace.none());
  return result;
}

// ---- reading

Value* get(Trace& trace, const Args& args) {
  auto [self, key, missing] = positional<3>(args, 2);
  Mapping mapping = Mapping::self(trace, self);
  Value* found = mapping.get_asked(mapping.asked(key));
  return found ? found : missing ? missing : trace.none();
}

/// dict.__getitem__, which calls a subclass's `__missing__` for an absent key.
Value* get_item(Trace& trace, const Args& args) {
  static PyObject* const kMissing = intern("__missing__");
  auto [self, key] = positional<2>(args, 2);
  Mapping mapping = Mapping::self(trace, self);
  if (Value* found = mapping.get(key)) return found;
  Value* seen = trace.see(self);
  if (seen->kind == Kind::Object)
    if (Value* missing = protocol::special_method(trace, seen, kMissing)) return protocol::call(trace, missing, {key});
  if (mapping.dict() && !is_none(trace, mapping.dict()->factory)) return protocol::get_item(trace, mapping.dict(), key);
  raise_key_error(trace, key);
}

/// defaultdict.__missing__: makes, stores and returns the default.
Value* missing(Trace& trace, const Args& args) {
  auto [self, key] = positional<2>(args, 2);
  Mapping mapping = Mapping::self(trace, self);
  if (!mapping.dict() || is_none(trace, mapping.dict()->factory)) raise_key_error(trace, key);
  Value* item = protocol::call(trace, mapping.dict()->factory, {});
  protocol::set_item(trace, self, key, item);
  return item;
}

Value* contains(Trace& trace, const Args& args) {
  auto [self, key] = positional<2>(args, 2);
  Mapping mapping = Mapping::self(trace, self);
  return trace.boolean(mapping.get_asked(mapping.asked(key)) != nullptr);
}

template <View::Which which>
Value* view(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  auto* result = trace.make<View>();
  result->which = which;
  result->dict = Mapping::self(trace, self).container();
  return result;
}

Value* copy(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  Mapping from = Mapping::self(trace, self);
  auto* object = trace.see_as<Object>(self);
  bool plain = !object || (from.dict()->type == &PyDict_Type && !PyType_IsSubtype(object->type, default_dict_type()));
  if (!plain) cannot(Reason::ArgumentKind, "copy() of a subclass of OrderedDict or defaultdict");
  Dict* result = new_dict(trace, from.dict() ? from.dict()->type : &PyDict_Type);
  if (from.dict()) result->factory = from.dict()->factory;
  Mapping into = Mapping::self(trace, result);
  for (auto& [key, item] : from.entries()) into.set(key, item);
  return result;
}

// ---- changing

Value* set_item(Trace& trace, const Args& args) {
  auto [self, key, item] = positional<3>(args, 3);
  Mapping mapping = Mapping::self(trace, self);
  mapping.set_asked(mapping.asked(key), item);
  return trace.none();
}

Value* delete_item(Trace& trace, const Args& args) {
  auto [self, key] = positional<2>(args, 2);
  Mapping mapping = Mapping::self(trace, self);
  if (!mapping.erase_asked(mapping.asked(key))) raise_key_error(trace, key);
  return trace.none();
}

/// Ends the segment at keywords, which only OrderedDict's methods accept.
void refuse_keywords(Mapping& mapping, const Args& args) {
  bool ordered = mapping.dict() && mapping.dict()->type == ordered_dict_type();
  if (args.keywords && !ordered) cannot(Reason::ArgumentKind, "a dict's method with keyword arguments");
}

Value* set_default(Trace& trace, const Args& args) {
  auto [self, key, item] = bind(args, 2, {"", "key", "default"});
  Mapping mapping = Mapping::self(trace, self);
  refuse_keywords(mapping, args);
  if (mapping.dict() && mapping.dict()->type == ordered_dict_type() && trace.see(self)->kind == Kind::Object)
    cannot(Reason::ArgumentKind, "setdefault() of a subclass of OrderedDict");  // calls its __contains__ and more
  Value* hashed = mapping.asked(key);
  if (Value* found = mapping.get_asked(hashed)) return found;
  Value* stored = item ? item : trace.none();
  mapping.set_asked(hashed, stored);
  return stored;
}

Value* pop(Trace& trace, const Args& args) {
  auto [self, key, missing] = bind(args, 2, {"", "key", "default"});
  Mapping mapping = Mapping::self(trace, self);
  refuse_keywords(mapping, args);
  bool own = !value::hashable(trace.see(key));
  if (own && mapping.size() == 0) cannot(Reason::ArgumentKind, "pop() of an empty dict");  // calls no method of the key
  Value* hashed = mapping.asked(key);
  Value* found = mapping.get_asked(hashed);
  if (!found && !missing) raise_key_error(trace, key);
  if (!found) return missing;
  mapping.erase_asked(hashed);
  return found;
}

Value* pop_item(Trace& trace, const Args& args) {
  auto [self, last] = bind(args, 1, {"", "last"});
  Mapping mapping = Mapping::self(trace, self);
  auto entries = mapping.entries();
  if (entries.empty()) {
    bool ordered = mapping.dict() && mapping.dict()->type == ordered_dict_type();
    auto* type = reinterpret_cast<PyTypeObject*>(PyExc_KeyError);
    Value* message = trace.text(ordered ? "dictionary is empty" : "popitem(): dictionary is empty");
    protocol::raise(trace, protocol::make_exception(trace, type, {message}));
  }
  auto [key, item] = flag(trace, last, true) ? entries.back() : entries.front();
  mapping.erase(key);
  return trace.tuple({key, item});
}

Value* update(Trace& trace, const Args& args) {
  if (args.positional < 1) cannot(Reason::ArgumentKind, "dict.update without an instance");
  Mapping self = updated(trace, args[0]);
  update_from_args(trace, self, args, 1);
  return trace.none();
}

Value* clear(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  Mapping::self(trace, self).clear();
  return trace.none();
}

/// OrderedDict.move_to_end; replay then writes the whole content, since the real dict's order changes.
Value* move_to_end(Trace& trace, const Args& args) {
  auto [self, key, last] = bind(args, 2, {"", "key", "last"});
  Mapping mapping = Mapping::self(trace, self);
  bool to_end = flag(trace, last, true);
  Value* item = mapping.get(key);
  if (!item) raise_key_error(trace, key);
  Dict* dict = mapping.dict();
  auto entries = mapping.entries();
  trace.will_change(dict);
  dict->entries.clear();
  dict->rewritten = true;
  Value* moved = as_key(trace, key);
  if (!to_end) dict->entries.set(moved, item);
  for (auto& [other, value] : entries)
    if (!value::equal_keys(other, moved)) dict->entries.set(other, value);
  if (to_end) dict->entries.set(moved, item);
  return trace.none();
}

/// a | b of dicts: a new one; NotImplemented for anything else.
Value* either(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  if (protocol::type_of(trace.see(self)) == &PyDictProxy_Type) cannot(Reason::ArgumentKind, "| of a mappingproxy");
  auto left = Mapping::of(trace, trace.see(self)), right = Mapping::of(trace, trace.see(other));
  if (!left || !right || !left->dict() || !right->dict()) return trace.constant(Py_NotImplemented);
  if (trace.see(self)->kind == Kind::Object) cannot(Reason::ArgumentKind, "| of a subclass of dict");
  return protocol::binary(trace, NB_OR, left->dict(), other);
}

Value* update_in_place(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  if (protocol::type_of(trace.see(self)) == &PyDictProxy_Type) cannot(Reason::ArgumentKind, "|= of a mappingproxy");
  Mapping into = updated(trace, self);
  update_mapping(trace, into, other, {});
  return trace.see(self);
}

Value* keys_disjoint(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  for (Value* item : protocol::items_of(trace, other))
    if (protocol::truth(trace, protocol::contains(trace, self, item))) return trace.boolean(false);
  return trace.boolean(true);
}

}  // namespace

void register_dict() {
  add_rows("builtins", Takes::Asked, {{"dict", &make<&dict_type>}, {"dict.__init__", &init_dict}});
  add_rows("types", Takes::Asked, {{"MappingProxyType", &make_proxy}});
  add_rows("collections", Takes::Asked,
           {
               {"OrderedDict", &make<&ordered_dict_type>},
               {"OrderedDict.__init__", &init_dict},
               {"OrderedDict.move_to_end", &move_to_end},
               {"defaultdict", &make_default_dict},
               {"defaultdict.__init__", &init_default_dict},
               {"defaultdict.__missing__", &missing},
               {"defaultdict.__copy__", &copy},
           });
  for (PyTypeObject* type : {dict_type(), ordered_dict_type(), default_dict_type(), &PyDictProxy_Type}) {
    add_rows(type, Takes::Asked,
             {
                 {"get", &get},
                 {"__getitem__", &get_item},
                 {"__contains__", &contains},
                 {"keys", &view<View::Keys>},
                 {"values", &view<View::Values>},
                 {"items", &view<View::Items>},
                 {"copy", &copy},
                 {"__setitem__", &set_item},
                 {"__delitem__", &delete_item},
                 {"setdefault", &set_default},
                 {"pop", &pop},
                 {"popitem", &pop_item},
                 {"update", &update},
                 {"clear", &clear},
                 {"fromkeys", &from_keys},
                 {"__or__", &either},
                 {"__ior__", &update_in_place},
             });
  }
  for (PyTypeObject* type : {&PyDictKeys_Type, &PyDictItems_Type})
    add_rows(type, Takes::Asked, {{"isdisjoint", &keys_disjoint}});
}

}  // namespace gramme::builtins
