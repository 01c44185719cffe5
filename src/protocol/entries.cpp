// Iterators over dicts and sets, their views, and the attributes of an instance.
#include "protocol/special.h"
#include "protocol/steps.h"
#include "trace/sets.h"

namespace gramme::protocol {

using namespace value;

namespace {

Value* container_of(Iterator* iterator) {
  auto* view = as<View>(iterator->parts[0]);
  return view ? view->dict : iterator->parts[0];
}

size_t size_now(Trace& trace, Value* container) {
  if (auto* dict = as<Dict>(container)) return dict->entries.size();
  if (auto* set = as<Set>(container)) return set->entries.size();
  return trace.all_attributes(static_cast<InstanceDict*>(container)->owner).size();
}

uint64_t stamp_of(Value* container) {
  if (auto* dict = as<Dict>(container)) return dict->entries.stamp();
  if (auto* set = as<Set>(container)) return set->entries.stamp();
  return 0;
}

bool is_ordered(Value* container) {
  auto* dict = as<Dict>(container);
  return dict && PyType_IsSubtype(dict->type, &PyODict_Type);
}

/// True for a set of constants, where `index` is a place in its table. Other sets are iterated from a snapshot
/// (parts[1]).
bool goes_through_places(Iterator* iterator, Value* container) {
  auto* set = as<Set>(container);
  return set && set->placed && iterator->parts.size() == 1;
}

/// Raises RuntimeError if the size changed. Ends the segment if keys were replaced, since CPython's order then depends
/// on their places.
void check_unchanged(Trace& trace, Iterator* iterator, Value* container) {
  if (is_ordered(container)) {
    if (stamp_of(container) == static_cast<uint64_t>(iterator->stop)) return;
    iterator->done = true;
    raise(trace, PyExc_RuntimeError, "OrderedDict mutated during iteration");
  }
  if (size_now(trace, container) != iterator->expected) {
    iterator->expected = static_cast<size_t>(-1);  // it raises from now on
    raise(trace, PyExc_RuntimeError,
          container->kind == Kind::Set ? "Set changed size during iteration"
                                       : "dictionary changed size during iteration");
  }
  if (goes_through_places(iterator, container)) return;
  if (stamp_of(container) != static_cast<uint64_t>(iterator->stop))
    cannot(Reason::ArgumentKind, "going on through a dict or set in which keys were replaced");
}

/// The dict's next live entry in the iterator's direction, or null.
Table::Entry* next_entry(Dict* dict, Iterator* iterator) {
  size_t at = static_cast<size_t>(iterator->index);
  if (iterator->increment > 0) {
    Table::Entry* entry = dict->entries.next(at);
    iterator->index = static_cast<Py_ssize_t>(at);
    return entry;
  }
  // Backwards, `index` counts live entries, and the table is walked from its start each time.
  if (iterator->index == 0) return nullptr;
  size_t from = 0;
  Table::Entry* entry = nullptr;
  for (Py_ssize_t i = 0; i < iterator->index; ++i) entry = dict->entries.next(from);
  --iterator->index;
  return entry;
}

Value* shown(Trace& trace, Iterator* iterator, Value* key, Value* value) {
  auto* view = as<View>(iterator->parts[0]);
  if (!view || view->which == View::Keys) return key;
  return view->which == View::Values ? value : trace.tuple({key, value});
}

/// The next of the names or keys that existed when the iteration began (parts[1]).
Value* next_of_snapshot(Trace& trace, Iterator* iterator, Value* container) {
  const std::vector<Value*>& keys = static_cast<Tuple*>(iterator->parts[1])->items;
  if (iterator->index >= static_cast<Py_ssize_t>(keys.size())) return end(iterator);
  size_t at = static_cast<size_t>(iterator->index++);
  Value* key = iterator->increment > 0 ? keys[at] : keys[keys.size() - 1 - at];
  auto* instance = as<InstanceDict>(container);
  Value* value = instance ? trace.own_attribute(instance->owner, key->object) : nullptr;
  return shown(trace, iterator, key, value);
}

}  // namespace

Value* next_of_entries(Trace& trace, Iterator* iterator) {
  Value* container = container_of(iterator);
  check_unchanged(trace, iterator, container);
  if (goes_through_places(iterator, container)) {
    Value* member = trace::next_member(trace, static_cast<Set*>(container), iterator->index);
    return member ? member : end(iterator);
  }
  auto* dict = as<Dict>(container);
  if (!dict) return next_of_snapshot(trace, iterator, container);
  Table::Entry* entry = next_entry(dict, iterator);
  return entry ? shown(trace, iterator, entry->key, entry->value) : end(iterator);
}

Iterator* entries_iterator(Trace& trace, Value* container, bool backwards) {
  Iterator* iterator = make_iterator(trace, Iterator::Entries, {container});
  Value* inner = container_of(iterator);
  if (auto* view = as<View>(container)) inner = view->dict = trace.see(view->dict);
  iterator->increment = backwards ? -1 : 1;
  if (auto* dict = as<Dict>(inner)) {
    trace.load(dict);
    iterator->index = backwards ? static_cast<Py_ssize_t>(dict->entries.size()) : 0;
  } else if (auto* set = as<Set>(inner)) {
    trace::guard_places(trace.facts, set);
    if (!set->placed) iterator->parts.push_back(trace.tuple(trace::members(trace, trace.facts, set)));
  } else if (auto* instance = as<InstanceDict>(inner)) {
    std::vector<Value*> names;
    for (const Attribute& attribute : trace.all_attributes(instance->owner))
      names.push_back(trace.constant(attribute.name));
    iterator->parts.push_back(trace.tuple(std::move(names)));
  } else {
    cannot(Reason::ArgumentKind, "iterating over " + type_name(inner));
  }
  iterator->expected = size_now(trace, inner);
  iterator->stop = static_cast<Py_ssize_t>(stamp_of(inner));
  return iterator;
}

}  // namespace gramme::protocol
