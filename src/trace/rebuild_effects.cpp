// How replay changes existing objects, and the calls it makes.
#include <algorithm>

#include "cpython/objects.h"
#include "cpython/replayed.h"
#include "trace/rebuild.h"

namespace gramme::trace {

using namespace value;
using plan::kNull;
using plan::Register;
using plan::ReplayKind;
using plan::ReplayOp;

namespace {
bool has_own(PyObject* object, PyObject* name) {
  PyObject* found = nullptr;
  return cpython::instance_attribute(object, name, &found) == cpython::Lookup::Found;
}

bool has_slot(PyObject* object, PyObject* name) {
  PyObject* descriptor = cpython::type_lookup(Py_TYPE(object), name);
  Py_ssize_t offset = descriptor ? cpython::slot_offset(descriptor, Py_TYPE(object)) : -1;
  return offset >= 0 && *cpython::slot_address(object, offset);
}
}  // namespace

void Rebuilder::replay(const effects::Effect& effect) {
  using K = effects::Kind;
  switch (effect.kind) {
    case K::StoreAttr:
      return replay_attribute(effect);
    case K::StoreSlot:
      return replay_slot(effect);
    case K::StoreGlobal: {
      auto* names = static_cast<Namespace*>(effect.target);
      Value* value = names->names[effect.name].value;
      Register dict = (*this)(names), content = value ? (*this)(value) : kNull;
      if (!value && !PyDict_Contains(names->object, effect.name)) return;
      ReplayOp& store = op(value ? ReplayKind::StoreDict : ReplayKind::DeleteDict);
      store.a = dict;
      store.b = constant(effect.name);
      store.c = content;
      return;
    }
    case K::StoreCell: {
      auto* cell = static_cast<Cell*>(effect.target);
      Register target = (*this)(cell), content = cell->content ? (*this)(cell->content) : kNull;
      ReplayOp& store = op(ReplayKind::StoreCell);
      store.a = target;
      store.b = content;
      return;
    }
    case K::Content:
      return replay_content(effect.target);
    case K::Call:
      return replay_calls(static_cast<size_t>(effect.call));
    case K::StoreClassAttr:
      return replay_class_attribute(effect);
  }
}

/// Replays calls in order up to `last`, also if the result of a later one is needed early.
void Rebuilder::replay_calls(size_t last) {
  while (called_ <= last) replay_call(called_);
}

void Rebuilder::replay_call(size_t index) {
  const effects::Effect& effect = *calls_[index];
  std::vector<Register> registers = all(effect.operands);
  if (called_ > index) return;  // an operand holds the call's own result: a hook that removes itself
  called_ = index + 1;
  Register result = call(effect.callable, registers);
  replay_.ops.back().kind = ReplayKind::CallEffect;
  if (!effect.result) return;
  memo_[effect.result] = result;
  if (auto* object = as<Object>(effect.result)) store_attributes(result, object->attributes);
  if (auto* tensor = as<Tensor>(effect.result)) store_attributes(result, tensor->attributes);
}

void Rebuilder::replay_attribute(const effects::Effect& effect) {
  Value* target = effect.target;
  auto* object = as<Object>(target);
  Attributes* attributes = object ? &object->attributes : nullptr;
  if (auto* tensor = as<Tensor>(target)) attributes = &tensor->attributes;
  if (auto* function = as<Function>(target)) attributes = &function->attributes;
  if (auto* dict = as<Dict>(target)) attributes = &dict->attributes;
  if (auto* partial = as<Partial>(target)) attributes = &partial->attributes;
  if (!attributes) GRAMME_BUG("attribute effect on another kind");
  Attribute* written = find(*attributes, effect.name);
  bool there = has_own(target->object, effect.name) || has_slot(target->object, effect.name);  // of a tensor, here, too
  if (!written->value && !there) return;  // set and deleted within the capture
  PyTypeObject* type = object ? object->type : target->kind == Kind::Function ? &PyFunction_Type : nullptr;
  Register owner = (*this)(target);
  if (effect.anew && there && written->value) store_attribute(owner, effect.name, nullptr, type);
  store_attribute(owner, effect.name, written->value, type);
}

void Rebuilder::replay_slot(const effects::Effect& effect) {
  auto* object = static_cast<Object*>(effect.target);
  Attribute* written = find(object->slots, effect.name);
  if (!written->value && !has_slot(object->object, effect.name)) return;
  store_slot((*this)(object), effect.name, written->value, object->type);
}

/// Touches a changed list even if it is empty before and after: list.sort may be running on it and checks for changes.
void Rebuilder::replay_list(List* list) {
  const bool untouched = list->own_items.empty() && list->own_items.capacity() == 0;
  if (list->unread && untouched) return;
  if (list->unread) return with_operands(ReplayKind::FillList, (*this)(list), all(list->own_items));
  const std::vector<Value*>& before = *trace_.original_items(list);
  if (before.empty() && untouched) return;
  bool grown = list->items().size() >= before.size() && std::equal(before.begin(), before.end(), list->items().begin());
  Register target = (*this)(list);
  std::vector<Value*> items(list->items().begin() + (grown ? before.size() : 0), list->items().end());
  with_operands(grown ? ReplayKind::FillList : ReplayKind::AssignList, target, all(items));
}

void Rebuilder::replay_dict(Dict* dict) {
  Register target = (*this)(dict);
  bool own = dict->entries.has_own();
  if (own && dict->rewritten) cannot(Reason::ReplayUnsupported, "keys with their own hash in a dict written anew");
  if (dict->rewritten) return with_operands(ReplayKind::AssignDict, target, pairs(dict->entries));
  for (const auto& [key, hash] : dict->erased) {
    Register erased = (*this)(key);
    if (!hashable(key)) {
      call(cpython::hashed_deleter(), {target, erased, integer(static_cast<Py_ssize_t>(hash))});
      continue;
    }
    ReplayOp& erase = op(ReplayKind::DeleteDict);
    erase.a = target;
    erase.b = erased;
  }
  std::vector<Register> changed;
  dict->entries.each([&](Table::Entry& entry) {
    if (!entry.changed) return;
    if (own) return store_hashed(target, dict->entries, entry);
    changed.push_back((*this)(entry.key));
    changed.push_back((*this)(entry.value));
  });
  with_operands(ReplayKind::FillDict, target, changed);
}

/// Stores item by item if the program did so: a live iterator over the deque would notice other changes.
void Rebuilder::replay_deque(Register target, Deque* deque) {
  if (deque->moves) return with_operands(ReplayKind::AssignDeque, target, all(deque->items));
  const std::vector<Value*>& before = *trace_.original_items(deque);
  for (size_t i = 0; i < before.size(); ++i) {
    if (deque->items[i] == before[i]) continue;
    Register item = (*this)(deque->items[i]);
    ReplayOp& store = op(ReplayKind::StoreItem);
    store.a = target;
    store.b = item;
    store.number = static_cast<int64_t>(i);
  }
}

void Rebuilder::replay_iterator(Register target, Iterator* iterator) {
  if (iterator->sort != Iterator::Live) {
    call(cpython::iterator_mover(), {target, integer(iterator->done ? -1 : iterator->index)});
    return;
  }
  Register count = integer(iterator->index), ended = (*this)(trace_.boolean(iterator->done));
  call(cpython::iterator_advancer(), {target, count, ended});
}

/// Advances existing iterators over the container before the container's own change is replayed.
void Rebuilder::replay_iterators_over(Value* container) {
  for (const effects::Effect& effect : trace_.effects().entries()) {
    auto* iterator = effect.kind == effects::Kind::Content ? as<Iterator>(effect.target) : nullptr;
    if (iterator && iterator->sort == Iterator::Live && !iterator->parts.empty() && iterator->parts[0] == container)
      replay_content(iterator);
  }
}

/// Replays the content of a container, once, and before iterators over it are made.
void Rebuilder::replay_content(Value* target) {
  if (!filled_.insert(target).second) return;
  if (target->kind == Kind::Dict) replay_iterators_over(target);
  if (auto* list = as<List>(target)) return replay_list(list);
  if (auto* dict = as<Dict>(target)) return replay_dict(dict);
  Register reg = (*this)(target);
  if (auto* iterator = as<Iterator>(target)) return replay_iterator(reg, iterator);
  if (auto* deque = as<Deque>(target)) return replay_deque(reg, deque);
  auto* set = as<Set>(target);
  if (!set) GRAMME_BUG("content effect on another kind");
  fill_set(reg, set, ReplayKind::AssignSet);
}

}  // namespace gramme::trace
