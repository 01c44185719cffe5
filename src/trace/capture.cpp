// Values of objects that the segment holds, real objects equal to values, and the identity of objects.
#include "trace/capture.h"

#include <algorithm>
#include <cstring>

#include "cpython/objects.h"
#include "source/constant.h"
#include "source/leaf_types.h"
#include "trace/literals.h"
#include "trace/made_instance.h"
#include "trace/sets.h"
#include "value/traits.h"

namespace gramme::trace {

using namespace value;

Value* Args::keyword(const char* name) const {
  for (size_t i = 0; i < keywords; ++i)
    if (PyUnicode_CompareWithASCIIString(names[i], name) == 0) return values[positional + i];
  return nullptr;
}

Value* Args::keyword(PyObject* name) const {
  for (size_t i = 0; i < keywords; ++i)
    if (names[i] == name) return values[positional + i];
  for (size_t i = 0; i < keywords; ++i)
    if (PyUnicode_Compare(names[i], name) == 0) return values[positional + i];
  return nullptr;
}

Capture::Capture(const Policy& policy) : policy(policy), data(policy.data) { shapes.general = policy.general; }

// ---- constants and containers of constants as real objects

PyObject* Capture::constant_of(Value* value) {
  value = see(value);
  if (value->kind == Kind::Constant) return value->object;
  return value->kind == Kind::Number ? specialized_value(static_cast<Number*>(value)) : nullptr;
}

namespace {

/// Collects the real objects equal to the values; false if one has none.
bool concrete_items(Capture& capture, const std::vector<Value*>& values, std::vector<Owned<>>& out) {
  for (Value* value : values) {
    out.push_back(capture.concrete(value));
    if (!out.back()) return false;
  }
  return true;
}

Owned<> concrete_of(Capture& capture, Tuple* tuple) {
  std::vector<Owned<>> items;
  if (!concrete_items(capture, tuple->items, items)) return {};
  Owned<> plain = take(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) PyTuple_SET_ITEM(plain.get(), i, items[i].release());
  return made_tuple(tuple->type, std::move(plain));
}

Owned<> concrete_of(Capture& capture, List* list) {
  std::vector<Owned<>> items;
  if (!concrete_items(capture, list->items(), items)) return {};
  Owned<> result = take(PyList_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) PyList_SET_ITEM(result.get(), i, items[i].release());
  return result;
}

Owned<> concrete_of(Capture& capture, Dict* dict) {
  if (dict->type != &PyDict_Type) return {};
  capture.load(dict);
  Owned<> result = take(PyDict_New());
  bool all = true;
  dict->entries.each([&](Table::Entry& entry) {
    if (!all) return;
    Owned<> key = capture.concrete(entry.key), item = key ? capture.concrete(entry.value) : Owned<>();
    all = static_cast<bool>(item);
    if (all) check(PyDict_SetItem(result.get(), key.get(), item.get()));
  });
  return all ? result : Owned<>();
}

Owned<> concrete_of(Capture& capture, Set* set) {
  if (Owned<> placed = real_set(capture, set)) return placed;
  Owned<> result = take(PySet_New(nullptr));
  bool all = true;
  set->entries.each([&](Table::Entry& entry) {
    Owned<> key = all ? capture.concrete(entry.key) : Owned<>();
    all = static_cast<bool>(key);
    if (all) check(PySet_Add(result.get(), key.get()));
  });
  if (!all) return {};
  return set->frozen ? take(PyFrozenSet_New(result.get())) : result;
}

Owned<> concrete_of(Capture& capture, Slice* slice) {
  Owned<> start = capture.concrete(slice->start), stop = capture.concrete(slice->stop),
          step = capture.concrete(slice->step);
  if (!start || !stop || !step) return {};
  return take(PySlice_New(start.get(), stop.get(), step.get()));
}

Owned<> concrete_of(Capture& capture, Number* number) {
  PyObject* known = capture.constant_of(number);
  return known ? share(known) : Owned<>();
}

/// A member of an IntEnum or StrEnum.
bool is_number_or_text(Object* object) {
  Value* payload = object->payload;
  return payload && payload->kind == Kind::Constant && object->source && object->source->kind == source::Kind::Pinned;
}

Owned<> concrete_of(Capture&, Object* object) {
  const bool leaf = object->object && source::is_leaf(object->object);
  return leaf || is_number_or_text(object) ? share(object->object) : Owned<>();
}

Owned<> concrete_of(Capture&, Class* seen) { return seen->existing() ? share(seen->object) : Owned<>(); }
Owned<> concrete_of(Capture&, Constant* constant) { return share(constant->object); }
Owned<> concrete_of(Capture&, Builtin* builtin) { return share(builtin->object); }

}  // namespace

Owned<> Capture::concrete(Value* value) {
  Deeper deeper(*this);
  value = see(value);
  if (is_literal(value)) return share(value->object);
  if (!has(value->kind, CONCRETE)) return {};
  return as_kind<CONCRETE>(value, [&](auto* seen) { return concrete_of(*this, seen); });
}

Value* Capture::python_number(Value* scalar) {
  if (std::strcmp(Py_TYPE(scalar->object)->tp_name, "numpy.bool") == 0) return nullptr;
  return constant(take(PyObject_CallMethod(scalar->object, "item", nullptr)));
}

Value* Capture::adopt_held(Owned<> object) {
  PyObject* o = object.get();
  if (PyType_Check(o) || PyCFunction_Check(o) || PyFunction_Check(o) || PyModule_Check(o)) return pinned(o);
  if (source::is_leaf(o)) return see(wrap(o, pool->pinned(o)));
  if (Value* found = objects.find(o);
      found && found->kind == Kind::Object && is_number_or_text(static_cast<Object*>(found)))
    return found;
  return constant(std::move(object));  // an immutable leaf of another type: dtype, device, a typing form …
}

// ---- identity

Value* Capture::address(Value* object) {
  object = see(object);
  const bool leaf = object->object && source::is_leaf(object->object);
  if (leaf || object->kind == Kind::Constant || object->kind == Kind::Number)
    cannot(Reason::ArgumentKind, "id() of a constant");
  auto known = addresses_.find(object);
  if (known != addresses_.end()) return known->second;
  constexpr size_t kMost = 64;  // every pair gets a guard
  if (addresses_.size() == kMost) cannot(Reason::ArgumentKind, "id() of many objects");
  for (auto& [other, address] : addresses_)
    if (same(object, other)) return address;
  auto* result = make<Object>();
  result->type = &PyLong_Type;
  result->attributes.push_back({intern("(referent)"), object});
  return addresses_[object] = result;
}

namespace {
bool is_weak_reference(Value* seen) {
  auto* object = as<Object>(seen);
  return object && object->type == &_PyWeakref_RefType;
}
}  // namespace

bool Capture::same(Value* a, Value* b) {
  a = see(a);
  b = see(b);
  if (a == b) return true;
  if (is_empty_tuple(a) && is_empty_tuple(b)) return true;
  if (is_literal(a) || is_literal(b)) return is_same_as_literal(facts, a, b);
  if (is_weak_reference(a) && is_weak_reference(b))  // one object may have one reference or many
    cannot(Reason::ArgumentKind, "the identity of weak references");
  bool existing =
      a->source && b->source && a->object && b->object && a->kind != Kind::Constant && b->kind != Kind::Constant;
  if (existing && a->source->kind != source::Kind::Pinned && b->source->kind != source::Kind::Pinned) {
    guards::Fact fact{a->source, guards::Kind::NotSameAs, {}};
    fact.other = b->source;
    facts.add(std::move(fact));
  }
  return false;
}

}  // namespace gramme::trace
