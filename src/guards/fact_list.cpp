// Which facts a capture keeps: one of a kind for each source and object it is compared with.
#include "guards/fact_list.h"

#include <algorithm>

#include "base/error.h"

namespace gramme::guards {

using source::Source;

namespace {

/// Merges two facts that bound the same number: it lies in both intervals.
void narrow(Fact& known, const Fact& other) {
  auto end = [](const Fact& fact, Py_ssize_t i) { return PyFloat_AS_DOUBLE(PyTuple_GET_ITEM(fact.object.get(), i)); };
  known = between(known.source, std::max(end(known, 0), end(other, 0)), std::min(end(known, 1), end(other, 1)),
                  known.number || other.number);
}

/// Ends the segment at sources nested too deeply: functions over sources recurse to the root. Checked only now and
/// then, since walking a long chain takes time.
void refuse_depth(const Source* source) {
  constexpr int kDeepestSource = 10000;
  int depth = 0;
  for (; source && depth <= kDeepestSource; source = source->base) ++depth;
  if (depth > kDeepestSource) cannot(Reason::TooDeep, "an object that deep in others");
}

}  // namespace

void FactList::add(Fact fact) {
  using K = Kind;
  bool about_itself =
      fact.kind == K::Type || fact.kind == K::Identity || fact.kind == K::Constant || fact.kind == K::Present;
  if (fact.source->kind == source::Kind::Pinned && about_itself) return;
  if (is_exempt(fact.source)) return;
  const Source* second = fact.kind == K::Subclass ? pool_.pinned(fact.object.get()) : fact.other;
  uint64_t other = second ? second->id + 1 : 0;
  uint64_t key = static_cast<uint64_t>(fact.source->id) << 34 | static_cast<uint64_t>(fact.kind) << 28 | other;
  constexpr size_t kAskedEach = 256;
  if (facts_.size() % kAskedEach == kAskedEach - 1) refuse_depth(fact.source);
  if (keys_.insert(key).second) return facts_.push_back(std::move(fact));
  if (fact.kind != K::Content) return;
  auto is_same = [&](const Fact& known) { return known.kind == K::Content && known.source == fact.source; };
  narrow(*std::ranges::find_if(facts_, is_same), fact);
}

void FactList::add_type(const Source* source, PyTypeObject* type) {
  add({source, Kind::Type, share(reinterpret_cast<PyObject*>(type))});
}

void FactList::add_absent(const Source* source) { add({source, Kind::Absent, {}}); }

void FactList::add_length(const Source* source, size_t length) {
  Fact fact{source, Kind::Length, {}};
  fact.number = static_cast<int64_t>(length);
  add(std::move(fact));
}

void FactList::add_identity(const Source* source, PyObject* object, bool same) {
  Fact fact{source, same ? Kind::Identity : Kind::NotSameAs, same ? share(object) : Owned<>()};
  if (!same) fact.other = pool_.pinned(object);
  add(std::move(fact));
}

bool FactList::is_exempt(const Source* source) const {
  if (made_.empty()) return false;
  const Source* root = source->root();
  if (root->kind != source::Kind::Pinned) return false;
  PyObject* object = root->key.get();
  return is_exempt(PyType_Check(object) ? reinterpret_cast<PyTypeObject*>(object) : Py_TYPE(object));
}

}  // namespace gramme::guards
