// copy.copy and copy.deepcopy on values, as in copy.py, for builtin containers and for instances without custom
// pickling.
#include <unordered_map>

#include "base/once.h"
#include "builtins/keys.h"
#include "builtins/python_support.h"
#include "cpython/objects.h"
#include "protocol/set_algebra.h"
#include "value/traits.h"

namespace gramme::builtins {
namespace {

using value::Deque;
using value::Dict;
using value::Kind;
using value::List;
using value::Object;
using value::Set;
using value::Tuple;

/// One call of copy() or deepcopy(), with its memo.
class Copier {
 public:
  Copier(Trace& trace, bool deep) : trace_(trace), deep_(deep) {}

  Value* copy(Value* original) {
    Value* seen = trace_.see(original);
    if (auto known = memo_.find(seen); known != memo_.end()) return known->second;
    return copy_new(seen);
  }

 private:
  Value* copy_new(Value* seen);
  Value* item(Value* value) { return deep_ ? copy(value) : value; }
  Value* copy_of(Tuple* tuple);
  Value* copy_of(List* list);
  Value* copy_of(Dict* dict);
  Value* copy_of(value::InstanceDict* dict);
  Value* copy_of(Deque* deque);
  Value* copy_of(Set* set);
  Value* copy_of(Object* object);
  Value* copy_of(Value* immutable) { return immutable; }
  void require_plain(PyTypeObject* type);

  Trace& trace_;
  bool deep_;
  std::unordered_map<Value*, Value*> memo_;
};

/// A tuple is its own copy if its items are.
Value* Copier::copy_of(Tuple* tuple) {
  if (tuple->type != &PyTuple_Type && (tuple->type->tp_flags & Py_TPFLAGS_HEAPTYPE)) require_plain(tuple->type);
  if (!deep_ && tuple->type == &PyTuple_Type) return tuple;
  std::vector<Value*> items;
  bool changed = tuple->type != &PyTuple_Type;
  for (Value* old : tuple->items) {
    items.push_back(item(old));
    changed |= items.back() != trace_.see(old);
  }
  if (!changed || memo_.contains(tuple)) return memo_.contains(tuple) ? memo_[tuple] : tuple;
  Tuple* result = trace_.tuple(std::move(items));
  result->type = tuple->type;
  return memo_[tuple] = result;
}

Value* Copier::copy_of(List* list) {
  List* result = trace_.list({});
  memo_[list] = result;
  std::vector<Value*> items = list->items();
  for (Value* old : items) result->own_items.push_back(item(old));
  return result;
}

Value* Copier::copy_of(Dict* dict) {
  trace_.load(dict);
  if (dict->type == &PyODict_Type && !trace_.all_attributes(dict).empty())
    cannot(Reason::ArgumentKind, "a copy of an OrderedDict with attributes");
  Dict* result = trace_.dict();
  result->type = dict->type;
  result->factory = dict->factory;  // functions and types are their own copies
  memo_[dict] = result;
  std::vector<std::pair<Value*, Value*>> entries;
  dict->entries.each([&](auto& entry) { entries.emplace_back(entry.key, entry.value); });
  for (auto& [key, value] : entries) trace_.dict_set(result, as_key(trace_, item(key), KeyOf::Dict), item(value));
  return result;
}

/// An instance's __dict__, copied to a dict.
Value* Copier::copy_of(value::InstanceDict* dict) {
  Dict* result = trace_.dict();
  memo_[dict] = result;
  for (auto& [name, value] : trace_.all_attributes(dict->owner))
    trace_.dict_set(result, trace_.constant(name), item(value));
  return result;
}

Value* Copier::copy_of(Deque* deque) {
  auto* result = trace_.make<Deque>();
  result->maxlen = deque->maxlen;
  memo_[deque] = result;
  std::vector<Value*> items = deque->items;
  for (Value* old : items) result->items.push_back(item(old));
  return result;
}

Value* Copier::copy_of(Set* set) {
  if (set->frozen && !deep_) return set;
  if (!deep_) return protocol::copy_of_set(trace_, set);
  Set* result = new_set(trace_, set->frozen);
  memo_[set] = result;
  for (Value* key : trace::members(trace_, trace_.facts, set))
    trace::add_member(trace_, result, as_key(trace_, item(key), KeyOf::Set));
  return result;
}

/// Ends the segment for a class with custom pickling or slots.
void Copier::require_plain(PyTypeObject* type) {
  static PyObject* const kHooks[] = {intern("__reduce_ex__"), intern("__reduce__"), intern("__getstate__")};
  static PyObject* const kForbidden[] = {intern("__setstate__"), intern("__getnewargs_ex__"), intern("__slots__")};
  static PyObject* const kNewArgs = intern("__getnewargs__");
  PyObject* const table = once([] { return real("copyreg", "dispatch_table"); });
  auto* reducers = trace_.see_as<Dict>(trace_.pinned(table));
  bool own = trace_.dict_get(reducers, trace_.pinned(reinterpret_cast<PyObject*>(type))) != nullptr;
  for (PyObject* hook : kHooks) own |= trace_.type_lookup(type, hook) != trace_.type_lookup(&PyBaseObject_Type, hook);
  bool tuple = PyType_IsSubtype(type, &PyTuple_Type);
  for (PyObject* hook : kForbidden)
    if (!tuple) own |= trace_.type_lookup(type, hook) != nullptr;
  if (!tuple) own |= trace_.type_lookup(type, kNewArgs) != nullptr;
  if (own) cannot(Reason::ArgumentKind, std::string("a copy of a ") + type->tp_name);
}

/// Calls the class's `__copy__` or `__deepcopy__`, else makes a new instance with the same attributes.
Value* Copier::copy_of(Object* object) {
  static PyObject* const kCopy = intern("__copy__");
  static PyObject* const kDeepCopy = intern("__deepcopy__");
  if (trace_.type_lookup(object->type, deep_ ? kDeepCopy : kCopy)) {
    Value* method = protocol::special_method(trace_, object, deep_ ? kDeepCopy : kCopy);
    if (!deep_) return protocol::call(trace_, method, {});
    return memo_[object] = protocol::call(trace_, method, {trace_.dict()});  // a new memo
  }
  if (!(object->type->tp_flags & Py_TPFLAGS_HEAPTYPE) || object->payload || !cpython::builtin_base(object->type))
    cannot(Reason::ArgumentKind, std::string("a copy of a ") + object->type->tp_name);
  require_plain(object->type);
  auto* result = trace_.make<Object>();
  result->type = object->type;
  memo_[object] = result;
  for (auto& [name, value] : trace_.all_attributes(object)) trace_.store_own_attribute(result, name, item(value));
  return result;
}

Value* Copier::copy_new(Value* seen) {
  if (!has(seen->kind, value::COPIED)) cannot(Reason::ArgumentKind, std::string("a copy of a ") + type_name(seen));
  return value::as_kind<value::COPIED>(seen, [&](auto* copied) { return copy_of(copied); });
}

Value* shallow(Trace& trace, const Args& args) {
  auto [object] = bind(args, 1, {"x"});
  return Copier(trace, false).copy(object);
}

Value* deep(Trace& trace, const Args& args) {
  auto [object, memo] = bind(args, 1, {"x", "memo"});
  Value* known = is_none(trace, memo) ? nullptr : trace.see(memo);
  auto* dict = known ? value::as<Dict>(known) : nullptr;
  if (known && (!dict || trace.dict_size(dict) != 0)) cannot(Reason::ArgumentKind, "copy.deepcopy() with a memo");
  return Copier(trace, true).copy(object);
}

/// True for constants whose pickle does not depend on which objects they are.
bool is_told_by_value(PyObject* constant) {
  return constant == Py_None || PyBool_Check(constant) || PyLong_CheckExact(constant) || PyFloat_CheckExact(constant);
}

/// pickle.dumps() of a dict of keyword arguments, by which libraries make keys of caches.
Value* pickled(Trace& trace, const Args& args) {
  auto* dict = args.positional == 1 && !args.names ? trace.see_as<Dict>(args[0]) : nullptr;
  const Owned<> plain = dict && dict->type == &PyDict_Type ? trace.concrete(dict) : Owned<>();
  PyObject *key, *item;
  bool known = static_cast<bool>(plain);
  for (Py_ssize_t at = 0; known && PyDict_Next(plain.get(), &at, &key, &item);)
    known = PyUnicode_CheckExact(key) && is_told_by_value(item);
  if (!known) cannot(Reason::ArgumentKind, "pickle.dumps() of anything but a dict of strings and plain constants");
  PyObject* const dumps = once([] { return real("_pickle", "dumps"); });
  return trace.constant(trace.keep(take(PyObject_CallOneArg(dumps, plain.get()))));
}

}  // namespace

void register_copy() {
  add_rows("copy", Takes::Asked, {{"copy", &shallow}, {"deepcopy", &deep}});
  add_rows("_pickle", Takes::Asked, {{"dumps", &pickled}});
}

}  // namespace gramme::builtins
