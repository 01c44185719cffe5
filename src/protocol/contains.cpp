// `item in container`.
#include "protocol/number.h"
#include "protocol/special.h"
#include "protocol/texts.h"
#include "value/traits.h"

namespace gramme::protocol {

using namespace value;

namespace {

bool any_equal(Trace& trace, const std::vector<Value*>& items, Value* item) {
  for (size_t i = 0; i < items.size(); ++i)  // by index: __eq__ may change the list
    if (equal(trace, items[i], item)) return true;
  return false;
}

bool in_iteration(Trace& trace, Value* container, Value* item) {
  Value* iterator = nullptr;
  try {
    iterator = get_iterator(trace, container);
  } catch (const UserError& error) {
    if (!PyType_IsSubtype(type_of(trace.see(error.exception)), reinterpret_cast<PyTypeObject*>(PyExc_TypeError))) throw;
    raise_no_container(trace, container);
  }
  while (Value* found = next(trace, iterator))
    if (equal(trace, found, item)) return true;
  return false;
}

/// Membership in a set; a plain set as item is looked up as the equal frozenset.
bool holds(Trace& trace, Set* set, Value* item) {
  item = trace.see(item);
  if (auto* other = as<Set>(item); other && !other->frozen) cannot(Reason::ArgumentKind, "a set looked for in a set");
  return set->entries.find(key_in(trace, set->entries, item)) != nullptr;
}

/// The value under the key of a dict or an instance's __dict__, or null.
Value* lookup(Trace& trace, Value* mapping, Value* key) {
  if (auto* dict = as<Dict>(mapping)) return trace.dict_get(dict, key_in(trace, dict, key));
  PyObject* name = name_key(trace, key);
  if (!name) return nullptr;
  if (auto* names = as<Namespace>(mapping)) return trace.global(names, name);
  return trace.own_attribute(static_cast<InstanceDict*>(mapping)->owner, name);
}

bool holds(Trace& trace, View* view, Value* item) {
  if (view->which == View::Keys) return lookup(trace, view->dict, item) != nullptr;
  if (view->which == View::Values) return in_iteration(trace, view, item);
  auto* pair = trace.see_as<Tuple>(item);
  if (!pair || pair->items.size() != 2) return false;
  Value* found = lookup(trace, view->dict, pair->items[0]);
  return found && equal(trace, found, pair->items[1]);
}

bool holds(Trace& trace, Constant* container, Value* item) {
  item = known(trace, trace.see(item));
  if (PySequence_Check(container->object) && item->kind == Kind::Constant) {
    int result = PySequence_Contains(container->object, item->object);
    if (result < 0) raise_current(trace);
    return result == 1;
  }
  if (is_constant_of(container, &PyRange_Type)) return in_iteration(trace, container, item);
  if (is_constant_of(container, &PyUnicode_Type)) {
    Value* payload = builtin_part(item);
    if (is_constant_of(payload, &PyUnicode_Type)) return holds(trace, container, payload);
    if (has_own_class(item)) cannot(Reason::ArgumentKind, "a " + type_name(item) + " looked for in a str");
    raise_about(trace, PyExc_TypeError, "'in <string>' requires string as left operand, not {}", item);
  }
  bool bytes = is_constant_of(container, &PyBytes_Type);
  if (bytes && has_index(trace, item)) return holds(trace, container, trace.integer(index(trace, item)));
  if (bytes) raise_about(trace, PyExc_TypeError, "a bytes-like object is required, not '{}'", item);
  raise_no_container(trace, container);
}

bool holds(Trace& trace, Tuple* tuple, Value* item) { return any_equal(trace, tuple->items, item); }
bool holds(Trace& trace, List* list, Value* item) { return any_equal(trace, list->items(), item); }
bool holds(Trace& trace, Deque* deque, Value* item) { return any_equal(trace, deque->items, item); }
bool holds(Trace& trace, Dict* dict, Value* key) { return lookup(trace, dict, key) != nullptr; }
bool holds(Trace& trace, Namespace* names, Value* key) { return lookup(trace, names, key) != nullptr; }
bool holds(Trace& trace, InstanceDict* names, Value* key) { return lookup(trace, names, key) != nullptr; }
bool holds(Trace& trace, Iterator* iterator, Value* item) { return in_iteration(trace, iterator, item); }
bool holds(Trace& trace, Generator* generator, Value* item) { return in_iteration(trace, generator, item); }
[[noreturn]] bool holds(Trace&, Tensor*, Value*) { cannot(Reason::DataDependentBranch, "`in` on a tensor"); }

/// Membership in objects and classes: __contains__, else iteration.
bool in_object(Trace& trace, Value* container, Value* item) {
  static PyObject* const contains_name = intern("__contains__");
  if (forbidden(trace, container, contains_name))
    raise_about(trace, PyExc_TypeError, "'{}' object is not a container", container);
  if (Value* method = own_method(trace, container, contains_name)) return truth(trace, call(trace, method, {item}));
  if (Value* payload = payload_for(trace, container, contains_name))
    return truth(trace, contains(trace, payload, item));
  return in_iteration(trace, container, item);
}

bool is_in(Trace& trace, Value* container, Value* item) {
  if (has_own_class(container)) return in_object(trace, container, item);
  if (!has(container->kind, CONTAINS)) raise_no_container(trace, container);
  return as_kind<CONTAINS>(container, [&](auto* held) { return holds(trace, held, item); });
}

}  // namespace

Value* contains(Trace& trace, Value* container, Value* item) {
  return trace.boolean(is_in(trace, trace.see(container), item));
}

}  // namespace gramme::protocol
