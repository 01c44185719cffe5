// Guards about pairs of objects and about the whole graph: overlapping memory of inputs, identity of objects that were
// written, and facts that can be dropped because others imply them.
#include "trace/closing_guards.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "cpython/objects.h"

namespace gramme::trace {

using namespace value;

namespace {

struct Placed {
  const Source* source;
  PyObject* object;
};

/// The tensors that share memory with no other tensor of the list; the rest is added to `aliased`.
std::vector<Placed> apart(const std::vector<Placed>& tensors, std::vector<Placed>& aliased) {
  std::vector<PyObject*> objects;
  std::vector<uint32_t> all;
  for (const Placed& tensor : tensors) {
    all.push_back(static_cast<uint32_t>(objects.size()));
    objects.push_back(tensor.object);
  }
  std::vector<uintptr_t> addresses;
  if (aten::all_apart(objects.data(), all, addresses)) return tensors;
  std::vector<Placed> result;
  for (size_t i = 0; i < tensors.size(); ++i) {
    bool shares = false;
    for (size_t j = 0; j < tensors.size() && !shares; ++j) shares = i != j && aten::overlap(objects[i], objects[j]);
    (shares ? aliased : result).push_back(tensors[i]);
  }
  return result;
}

void guard_pair(Trace& trace, guards::Kind kind, const Source* source, const Source* other) {
  guards::Fact fact{source, kind, {}};
  fact.other = other;
  trace.facts.add(std::move(fact));
}

/// Guards that no two tensors share memory, except those that do at capture.
void guard_apart(Trace& trace, const std::vector<Placed>& tensors) {
  std::vector<Placed> aliased;
  const std::vector<Placed> group = apart(tensors, aliased);
  for (size_t i = 1; i < group.size(); ++i)
    guard_pair(trace, guards::Kind::Apart, group[i - 1].source, group[i].source);
  for (size_t i = 0; i < aliased.size(); ++i) {
    for (const Placed& other : group) guard_pair(trace, guards::Kind::NoOverlap, aliased[i].source, other.source);
    for (size_t j = i + 1; j < aliased.size(); ++j)
      if (!aten::overlap(aliased[i].object, aliased[j].object))
        guard_pair(trace, guards::Kind::NoOverlap, aliased[i].source, aliased[j].source);
  }
}

/// Guards which inputs share memory, if some input is written.
void guard_overlaps(Trace& trace) {
  if (!trace.scope().writes().has_inputs()) return;
  std::vector<Placed> inputs;
  std::unordered_set<const Source*> known;  // an inner tensor may be an input itself
  for (const Memory& memory : trace.scope().memory())
    if (known.insert(memory.source).second) inputs.push_back({memory.source, memory.object});
  guard_apart(trace, inputs);
}

/// Guards the intervals of numbers that the program read from inputs.
void guard_contents(Trace& trace) {
  trace.scope().contents().each_start([&](const Tensor* input, meta::Interval range, bool whole) {
    trace.facts.add(guards::between(input->source, range.low, range.high, whole));
  });
}

/// The values of existing objects, in the order in which the capture found them.
std::vector<Value*> known(Trace& trace) {
  std::vector<Value*> all;
  trace.objects.each([&](Value* value) {
    if (value->source) all.push_back(value);
  });
  std::sort(all.begin(), all.end(), [](Value* a, Value* b) { return a->source->id < b->source->id; });
  return all;
}

/// Guards that other tensors stay outside the storage of one that came to require a gradient by a write: all views of
/// its base require one since.
void guard_gained(Trace& trace) {
  const std::vector<Tensor*>& gained = trace.scope().writes().gained();
  if (gained.empty()) return;
  for (Value* value : known(trace)) {
    if (value->kind != Kind::Tensor) continue;
    for (const Tensor* tensor : gained)
      if (value != tensor) guard_pair(trace, guards::Kind::OtherStorage, tensor->source, value->source);
  }
}

/// Guards that no tensor is a view of one whose requires_grad was set: views take it from their base.
void guard_toggled(Trace& trace) {
  if (trace.scope().writes().toggled().empty()) return;
  std::vector<Placed> tensors;
  for (Value* value : known(trace))
    if (value->kind == Kind::Tensor) tensors.push_back({value->source, value->object});
  guard_apart(trace, tensors);
}

bool is_altered(Value* value) {
  return value->kind == Kind::Tensor && (value->written || static_cast<const Tensor*>(value)->altered);
}

/// True if the program changed the object, or the content of its builtin base (payload).
bool is_changed(Value* value) {
  const auto* object = as<Object>(value);
  return value->written || is_altered(value) || (object && object->payload && object->payload->written);
}

/// True if another reference could change what the trace knows of this object.
bool can_be_mistaken(const Value* value, bool alters_tensors) {
  if (value->kind == Kind::Tensor)
    return alters_tensors || value->keyed || static_cast<const Tensor*>(value)->dict_seen;
  return is_mutable(value->kind) || value->kind == Kind::Function || value->keyed;
}

/// Finds values that could be one object at another call: two of the same type, or a dict and an object or module whose
/// attributes or globals it holds.
class Mixed {
 public:
  Mixed(const std::vector<Value*>& all, const std::vector<Value*>& pinned) {
    for (Value* value : pinned) {
      ++known_[type(value)];
      if (is_changed(value) || value->keyed) told_apart_.insert(type(value));
    }
    for (Value* value : all) {
      ++known_[type(value)];
      movable_.insert(type(value));
      if (is_changed(value) || value->keyed) told_apart_.insert(type(value));
      (is_dict(value) ? dicts_ : owners_) += is_dict(value) || owns_dict(value);
      (is_dict(value) ? written_dicts_ : written_owners_) += is_changed(value) && (is_dict(value) || owns_dict(value));
    }
  }
  bool may_be_another(Value* value) const {
    if (told_apart_.contains(type(value)) && known_.at(type(value)) > 1) return true;
    bool beside_dicts = written_dicts_ && owners_, beside_owners = written_owners_ && dicts_;
    if (is_dict(value)) return beside_owners || (beside_dicts && is_changed(value));
    return owns_dict(value) && (beside_dicts || (beside_owners && is_changed(value)));
  }
  /// True if another source may lead to this object, which the segment holds.
  bool may_be_met(Value* pinned) const { return told_apart_.contains(type(pinned)) && movable_.contains(type(pinned)); }

 private:
  static PyTypeObject* type(Value* value) { return Py_TYPE(value->object); }
  static bool is_dict(Value* value) { return value->kind != Kind::Namespace && PyDict_Check(value->object); }
  static bool owns_dict(Value* value) {
    return value->kind == Kind::Namespace || cpython::instance_dict_address(value->object) != nullptr;
  }
  std::unordered_map<PyTypeObject*, size_t> known_;
  std::unordered_set<PyTypeObject*> told_apart_, movable_;
  size_t dicts_ = 0, owners_ = 0, written_dicts_ = 0, written_owners_ = 0;
};

/// Guards that a written object, or a key, stays distinct from every other object that could be the same one.
void guard_distinct(Trace& trace) {
  std::vector<Value*> all = known(trace);
  const bool alters_tensors = std::ranges::any_of(all, is_altered);
  std::erase_if(all, [&](Value* value) { return !can_be_mistaken(value, alters_tensors); });
  trace.objects.each_namespace([&](Value* names) { all.push_back(names); });
  std::sort(all.begin(), all.end(), [](Value* a, Value* b) { return a->source->id < b->source->id; });
  const auto first_pinned = std::stable_partition(
      all.begin(), all.end(), [](Value* value) { return value->source->kind != source::Kind::Pinned; });
  const std::vector<Value*> pinned(first_pinned, all.end());
  all.erase(first_pinned, all.end());
  const Mixed mixed(all, pinned);
  auto guard = [&](Value* value) {
    trace.facts.add(
        {value->source, is_changed(value) || value->keyed ? guards::Kind::Distinct : guards::Kind::Other, {}});
  };
  for (Value* value : all)
    if (mixed.may_be_another(value)) guard(value);
  for (Value* value : pinned)
    if (mixed.may_be_met(value)) guard(value);
}

/// By source id: whether a number that was to vary was needed as a constant.
std::vector<bool> constants(const Trace& trace) {
  std::vector<bool> result(trace.pool->size());
  for (const Source* source : trace.numbers.specialized()) result[source->id] = true;
  return result;
}

/// Drops facts that others imply: an object that is read or looked into, or that has a child, is present.
std::vector<guards::Fact> pruned(const Trace& trace, const std::vector<const Source*>& reads) {
  std::vector<bool> implied(trace.pool->size());
  auto mark = [&](const Source* source) {
    for (; source && !implied[source->id]; source = source->base) implied[source->id] = true;
  };
  for (const Source* source : reads) mark(source);
  for (const guards::Fact& fact : trace.facts.all()) {
    if (fact.kind == guards::Kind::Present) continue;
    mark(fact.kind == guards::Kind::Absent ? fact.source->base : fact.source);
    if (fact.other) mark(fact.other);
  }
  std::vector<guards::Fact> kept;
  const std::vector<bool> constant = constants(trace);
  for (const guards::Fact& fact : trace.facts.all()) {
    mark(fact.source->base);
    if (constant[fact.source->id] && fact.kind != guards::Kind::Constant) continue;
    if (fact.kind != guards::Kind::Present || !implied[fact.source->id]) kept.push_back(fact);
  }
  return kept;
}

/// Drops requires_grad from the guards if nothing depends on it: no gradient was recorded or asked for, no input is
/// written, no function is called in replay.
void forget_autograd(const Trace& trace, std::vector<guards::Fact>& facts) {
  const auto& effects = trace.effects().entries();
  bool calls = std::any_of(effects.begin(), effects.end(), [](const effects::Effect& effect) {
    return effect.kind == effects::Kind::Call && !effect.quiet;
  });
  if (trace.scope().autograd_seen() || trace.scope().writes().has_inputs() || calls) return;
  for (guards::Fact& fact : facts)
    if (fact.spec) fact.spec = aten::without_autograd(*fact.spec);
}

/// Drops the kind of view from guards, except for tensors written in a way that autograd records.
void forget_views(const Trace& trace, std::vector<guards::Fact>& facts) {
  const std::vector<const Tensor*> written = trace.scope().writes().inputs();
  for (guards::Fact& fact : facts) {
    auto is_its = [&](const Tensor* tensor) { return tensor->source == fact.source && tensor->record->requires_grad; };
    if (fact.spec && std::ranges::none_of(written, is_its)) fact.spec = aten::without_views(*fact.spec);
  }
}

}  // namespace

void guard_identity(Trace& trace) {
  guard_overlaps(trace);
  guard_contents(trace);
  guard_gained(trace);
  guard_toggled(trace);
  guard_distinct(trace);
}

std::vector<guards::Fact> facts_needed(const Trace& trace, const std::vector<const Source*>& reads) {
  std::vector<guards::Fact> facts = pruned(trace, reads);
  forget_autograd(trace, facts);
  forget_views(trace, facts);
  return facts;
}

}  // namespace gramme::trace
