// Chooses for each object how it can be found again: as a constant, by name in a module, in the call by a fact that
// states its place, or from its parts.
#include "portable/describe.h"

#include <algorithm>

#include "aten/classes.h"
#include "cpython/entries.h"
#include "cpython/objects.h"
#include "portable/bound.h"
#include "portable/canonical.h"
#include "portable/raw.h"
#include "source/constant.h"
#include "source/leaf_types.h"

namespace gramme::portable {
namespace {

constexpr int kDeepest = 50;

ObjectRef unportable(Unportable reason) { return {.kind = ObjectRef::Kind::ByIdentity, .reason = reason}; }

/// True if the set's members have the same hashes in each process. A single member has its place with any hash.
bool has_steady_hashes(PyObject* set) {
  PyObject* member;
  Py_hash_t hash;
  for (Py_ssize_t at = 0; PySet_GET_SIZE(set) > 1 && cpython::next_member(set, &at, &member, &hash);)
    if (!PyLong_CheckExact(member) && !PyBool_Check(member) && !PyFloat_CheckExact(member)) return false;
  return true;
}

}  // namespace

const char* place_name(Place place) {
  constexpr const char* kNames[] = {
#define PLACE(name, ...) #name,
#include "portable/places.def"
#undef PLACE
  };
  return kNames[static_cast<int>(place)];
}

Describer::Describer(const plan::Segment& segment, PyCodeObject* code, Naming& naming)
    : naming_(naming), pool_(*segment.guards.description().pool) {
  const plan::GuardDescription& guards = segment.guards.description();
  for (size_t i = 0; i < guards.pool->size(); ++i) {
    const source::Source* source = guards.pool->at(i);
    if (source->kind == source::Kind::Function && source::frame_of(source->index) == 0)
      note(reinterpret_cast<PyObject*>(code), source, ObjectRef::Part::Code);
  }
  note_facts(guards);
}

void Describer::note_facts(const plan::GuardDescription& guards) {
  std::vector<const guards::Fact*> behind;  // those about held objects, found only after the others
  for (const guards::Fact& fact : guards.facts)
    fact.source->root()->kind == source::Kind::Pinned ? behind.push_back(&fact) : note(fact);
  for (const guards::Fact* fact : behind)
    if (begins_outside(fact->source)) note(*fact);
}

void Describer::note(const guards::Fact& fact) {
  using Kind = guards::Kind;
  if (fact.kind == Kind::Identity) note(fact.object.get(), fact.source, ObjectRef::Part::Itself);
  if (fact.kind == Kind::Type) note(fact.object.get(), fact.source, ObjectRef::Part::Type);
  if (fact.kind == Kind::Code) note(fact.object.get(), fact.source, ObjectRef::Part::Code);
  if (fact.spec) note(reinterpret_cast<PyObject*>(fact.spec->tensor->type), fact.source, ObjectRef::Part::Type);
}

void Describer::note(PyObject* object, const source::Source* source, ObjectRef::Part part) {
  in_call_.try_emplace(object, InCall{source->id, part});
}

bool Describer::begins_outside(const source::Source* source) {
  PyObject* root = source->root()->key.get();
  return in_call_.contains(root) || naming_.find(root) != nullptr;
}

ObjectRef Describer::describe(Place place, PyObject* object) {
  if (place == Place::Compiled || place == Place::GraphModule) return unportable(Unportable::Artifact);
  if (place == Place::TensorContext) return unportable(Unportable::Context);
  if (place == Place::Pinned && source::is_constant(object)) return unportable(Unportable::Constant);
  const bool in_order = place == Place::ReplayObject || place == Place::Order;
  if (PySet_Check(object) || (PyFrozenSet_CheckExact(object) && in_order)) return of_set(object, in_order);
  return described(object, 0);
}

/// Sets that are compared member by member have no order. For Places facts and in replays the order counts
/// (`in_order`): such a set is portable if a new one has the same places in each process, whatever this one held
/// before.
ObjectRef Describer::of_set(PyObject* set, bool in_order) {
  ObjectRef ref{.kind = ObjectRef::Kind::Set, .digest = PySet_Check(set) ? "set" : "frozenset"};
  if (!encode(take(PySequence_Tuple(set)).get(), ref.bytes)) return unportable(Unportable::Container);
  if (!in_order) return ref;
  auto same = [](PyObject* a, PyObject* b) { return source::same_constant(a, b); };
  const bool is_steady = has_steady_hashes(set) && cpython::same_places(made_set(ref).get(), set, same);
  return is_steady ? ref : unportable(Unportable::HashOrder);
}

ObjectRef Describer::described(PyObject* object, int depth) {
  const auto known = in_call_.find(object);
  const bool is_itself = known != in_call_.end() && known->second.part == ObjectRef::Part::Itself;
  ObjectRef ref{.kind = ObjectRef::Kind::Constant};
  if (encode(object, ref.bytes)) {
    if (!is_itself || decode(ref.bytes).get() == object) return ref;
    // A fact about an object's identity does not hold for an equal object. A frozenset with such a fact is an attribute
    // of a class, such as __abstractmethods__, and is found in the call again.
    if (!PyFrozenSet_CheckExact(object)) return unportable(Unportable::Constant);
  }
  ref.bytes.clear();
  if (PyTuple_CheckExact(object) && !is_itself && depth < kDeepest) {  // by identity a new one will not do
    ref.kind = ObjectRef::Kind::Tuple;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      ref.items.push_back(described(PyTuple_GET_ITEM(object, i), depth + 1));
    return ref;
  }
  if (is_opaque(object)) return of_opaque(object, depth);
  if (const Path* path = naming_.find(object)) {
    ref.kind = ObjectRef::Kind::Named;
    ref.path = *path;
    ref.digest = digest_of_object(object);
    return ref;
  }
  if (known != in_call_.end()) {
    ref.kind = ObjectRef::Kind::FromCall;
    ref.source = known->second.source;
    ref.part = known->second.part;
    ref.digest = digest_of_object(object);
    return ref;
  }
  if (const ObjectRef* beyond = beyond_call(object)) return *beyond;
  if (PyFrozenSet_CheckExact(object) && depth < kDeepest) {
    ref.kind = ObjectRef::Kind::FrozenSet;
    PyObject* member;
    Py_hash_t hash;
    for (Py_ssize_t at = 0; cpython::next_member(object, &at, &member, &hash);)
      ref.items.push_back(described(member, depth + 1));
    std::ranges::sort(ref.items, {}, [&](const ObjectRef& item) { return item.print(pool_); });
    return ref;
  }
  if (PyCFunction_Check(object)) return of_opaque(object, depth);
  return unportable(reason_of(object));
}

/// A bound function is described by its parts. Other opaque objects cannot be distinguished from each other.
ObjectRef Describer::of_opaque(PyObject* object, int depth) {
  if (std::optional<ObjectRef> bound = of_bound(object, depth)) return *bound;
  return unportable(reason_of(object));
}

/// Finds objects through classes and functions that only the call leads to.
const ObjectRef* Describer::beyond_call(PyObject* object) {
  if (!std::exchange(went_beyond_, true))
    for (const auto& [from, place] : in_call_) {
      if (!(PyType_Check(from) || PyFunction_Check(from)) || naming_.find(from)) continue;
      for (auto& [reached, steps] : ways_from(from, module_of(from))) {
        const auto [known, is_new] = beyond_call_.try_emplace(reached);
        const bool shorter = is_new || steps.size() < known->second.path.steps.size();
        if (shorter || (steps.size() == known->second.path.steps.size() && place.source < known->second.source))
          known->second = {.kind = ObjectRef::Kind::FromCall,
                           .path = {"", std::move(steps)},
                           .digest = digest_of_object(reached),
                           .source = place.source,
                           .part = place.part};
      }
    }
  const auto found = beyond_call_.find(object);
  return found == beyond_call_.end() ? nullptr : &found->second;
}

std::optional<ObjectRef> Describer::of_bound(PyObject* function, int depth) {
  const auto [self, name] = bound_parts(function);
  if (!self || depth >= kDeepest) return std::nullopt;
  ObjectRef ref{.kind = ObjectRef::Kind::Bound, .bytes = name, .items = {described(self.get(), depth + 1)}};
  const Owned<> again = ref.items[0].is_portable() ? bind_again(self.get(), name) : Owned<>();
  if (!again || !is_same_bound(function, again.get())) return std::nullopt;
  return ref;
}

Unportable Describer::reason_of(PyObject* object) {
  if (PyFunction_Check(object)) return Unportable::LocalFunction;
  if (PyType_Check(object)) return Unportable::LocalClass;
  if (PyCode_Check(object)) return Unportable::LocalCode;
  if (PyModule_Check(object)) return Unportable::Module;
  if (PyCFunction_Check(object)) return Unportable::Bound;
  if (source::is_leaf(object)) return Unportable::Scalar;
  if (aten::is_tensor(object)) return Unportable::Tensor;
  const bool contains = PyTuple_Check(object) || PyList_Check(object) || PyDict_Check(object) || PyAnySet_Check(object);
  if (contains) return Unportable::Container;
  return is_opaque(object) ? Unportable::Opaque : Unportable::Instance;
}

std::vector<Described> describe(const plan::Segment& segment, PyCodeObject* code, Naming& naming) {
  Describer describer(segment, code, naming);
  visit(segment, [&](Place, const auto& owned) {  // a first pass: finding one class may make others findable
    auto* object = reinterpret_cast<PyObject*>(owned.get());
    if (PyType_Check(object)) naming.find(object);
  });
  std::vector<Described> all;
  visit(segment, [&](Place place, const auto& owned) {
    auto* object = reinterpret_cast<PyObject*>(owned.get());
    all.push_back({place, object, describer.describe(place, object)});
  });
  return all;
}

std::vector<Described> describe(const graph::Kept& graph, const plan::Segment& segment, PyCodeObject* code,
                                Naming& naming) {
  Describer describer(segment, code, naming);
  for (const Owned<>& object : graph.objects())
    if (PyType_Check(object.get())) naming.find(object.get());
  std::vector<Described> all;
  for (const Owned<>& object : graph.objects())
    all.push_back({Place::Graph, object.get(), describer.describe(Place::Graph, object.get())});
  return all;
}

std::vector<std::string> why_not_portable(const plan::Segment& segment, const std::vector<Described>& described) {
  std::vector<std::string> reasons;
  for (const auto& [place, object, ref] : described) {
    if (ref.is_portable() || (ref.kind == ObjectRef::Kind::ByIdentity && ref.reason == Unportable::Artifact)) continue;
    const std::string reason = std::string(place_name(place)) + " " + source::describe(object) + ": " +
                               ref.print(*segment.guards.description().pool);
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) reasons.push_back(reason);
  }
  return reasons;
}

}  // namespace gramme::portable
