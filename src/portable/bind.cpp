// Finds a segment's objects by their descriptions, and rebuilds its sources and guards with them.
#include "portable/bind.h"

#include "base/error.h"
#include "cpython/objects.h"
#include "plan/walk.h"
#include "portable/bound.h"
#include "portable/canonical.h"
#include "portable/raw.h"
#include "portable/visit.h"

namespace gramme::portable {

Owned<> Finder::read(const source::Source* source) const {
  const plan::Step step{.kind = source->kind, .index = source->index, .key = source->key.get(), .source = source};
  if (!source->base) return share(plan::read_root(step, roots_));
  const Owned<> base = read(source->base);
  PyObject* value = nullptr;
  if (!base || plan::read_child(step, base.get(), &value) != plan::Outcome::Found) return {};
  return share(value);
}

Owned<> Finder::in_call(const ObjectRef& ref) const {
  Owned<> found = ref.source < pool_.size() ? read(pool_.at(ref.source)) : Owned<>();
  plan::reading->made.clear();
  if (!found) return {};
  if (ref.part == ObjectRef::Part::Type) found = child(found.get(), {StepKind::Class});
  if (ref.part == ObjectRef::Part::Code) found = child(found.get(), {StepKind::Code});
  return follow(std::move(found), ref.path.steps);
}

Owned<> Finder::bound(const ObjectRef& ref) {
  const Owned<> self = find(ref.items.at(0));
  return self ? bind_again(self.get(), ref.bytes) : Owned<>();
}

Owned<> Finder::all(const ObjectRef& ref) {
  Owned<> tuple = take(PyTuple_New(static_cast<Py_ssize_t>(ref.items.size())));
  for (size_t i = 0; i < ref.items.size(); ++i) {
    Owned<> item = find(ref.items[i]);
    if (!item) return {};
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  return tuple;
}

Owned<> Finder::find(const ObjectRef& ref) {
  using Kind = ObjectRef::Kind;
  if (ref.kind == Kind::Constant) return decode(ref.bytes);
  if (ref.kind == Kind::Set) return made_set(ref);
  if (ref.kind == Kind::Tuple) return all(ref);
  if (ref.kind == Kind::Bound) return bound(ref);
  if (ref.kind == Kind::FrozenSet) {
    const Owned<> members = all(ref);
    return members ? take(PyFrozenSet_New(members.get())) : Owned<>();
  }
  Owned<> found = ref.kind == Kind::Named ? resolve(ref.path) : ref.kind == Kind::FromCall ? in_call(ref) : Owned<>();
  if (!found) {
    missing.push_back(ref.print(pool_) + " is not there");
  } else if (const std::string digest = digest_of_object(found.get()); digest != ref.digest) {
    missing.push_back(ref.print(pool_) + " is " + digest + ", not " + ref.digest);
    found = {};
  }
  return found;
}

namespace {

/// A visitor that puts the objects in place, in the order of visit().
class Next {
 public:
  explicit Next(const std::vector<Owned<>>& objects) : objects_(objects) {}
  template <class T>
  void operator()(Place, Owned<T>& owned) {
    if (const Owned<>& other = next()) owned = Owned<T>::share(reinterpret_cast<T*>(other.get()));
  }
  /// For members that cannot be replaced: the class in a tensor's description.
  template <class T>
  void operator()(Place, const Owned<T>& owned) {
    const Owned<>& other = next();
    if (other && other.get() != reinterpret_cast<PyObject*>(owned.get()))
      GRAMME_BUG("another object in the description of a tensor");
  }
  bool at_end() const { return at_ == objects_.size(); }

 private:
  const Owned<>& next() {
    if (at_end()) GRAMME_BUG("a segment with more objects than its description");
    return objects_[at_++];
  }
  const std::vector<Owned<>>& objects_;
  size_t at_ = 0;
};

/// A copy of the guards' description with a new pool of sources.
plan::GuardDescription with_objects(const plan::GuardDescription& from, Next& next) {
  plan::GuardDescription made = from;
  for (guards::Fact& fact : made.facts) visit(fact, next);
  made.pool = std::make_shared<source::Pool>();
  std::vector<const source::Source*> sources;
  for (size_t i = 0; i < from.pool->size(); ++i) {
    source::Source like = *from.pool->at(i);
    visit(like, next);
    const source::Source* base = like.base ? sources[like.base->id] : nullptr;
    sources.push_back(made.pool->like(like, base, like.key.get()));
    if (like.variable) source::Pool::show_as(sources.back(), like.variable.get());
  }
  auto move = [&](const source::Source*& source) {
    if (source) source = sources[source->id];
  };
  for (guards::Fact& fact : made.facts) move(fact.source), move(fact.other);
  for (const source::Source*& source : made.reads) move(source);
  for (const source::Source*& source : made.shapes.symbols) move(source);
  for (guards::ShapeGuards::Property& property : made.shapes.properties) move(property.source);
  return made;
}

/// Moves everything except the guards from one segment to the other.
void move_rest(plan::Segment& from, plan::Segment& to) {
  auto& [start, steps, guards, graph_inputs, classed, compiled, call, graph_outputs, restored, lasting, random,
         sets_modes, iterates, replay, levels, exit, ending, effects, operations, operators, graph_module, hits, number,
         check_seconds, recorded, terms, capture_terms, compile_id] = from;
  auto& [start_, steps_, guards_, graph_inputs_, classed_, compiled_, call_, graph_outputs_, restored_, lasting_,
         random_, sets_modes_, iterates_, replay_, levels_, exit_, ending_, effects_, operations_, operators_,
         graph_module_, hits_, number_, check_seconds_, recorded_, terms_, capture_terms_, compile_id_] = to;
  std::tie(start_, steps_, graph_inputs_, classed_, compiled_, call_, graph_outputs_, restored_, random_, sets_modes_,
           iterates_, levels_, operations_, operators_, graph_module_, hits_, number_, check_seconds_, recorded_,
           terms_, capture_terms_) =
      std::tie(start, steps, graph_inputs, classed, compiled, call, graph_outputs, restored, random, sets_modes,
               iterates, levels, operations, operators, graph_module, hits, number, check_seconds, recorded, terms,
               capture_terms);
  lasting_ = std::move(lasting);
  replay_ = std::move(replay);
  exit_ = std::move(exit);
  ending_ = std::move(ending);
  effects_ = std::move(effects);
  compile_id_ = compile_id;
}

}  // namespace

std::unique_ptr<plan::Segment> with_objects(std::unique_ptr<plan::Segment> segment,
                                            const std::vector<Owned<>>& objects) {
  Next next(objects);
  auto made = std::make_unique<plan::Segment>(with_objects(segment->guards.description(), next));
  move_rest(*segment, *made);
  auto writes = made->lasting ? std::make_unique<plan::LastingWrites>(*made->lasting) : nullptr;
  made->lasting.reset();
  visit_all_but_guards(*made, next);
  if (writes) visit(*writes, next);
  made->lasting = std::move(writes);
  if (!next.at_end()) GRAMME_BUG("a segment with fewer objects than its description");
  return made;
}

}  // namespace gramme::portable
