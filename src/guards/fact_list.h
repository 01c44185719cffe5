// The facts of one capture: what must hold again of the objects at its sources, each noted once.
//
//   FactList facts(pool);
//   facts.add({source, Kind::Present, {}});
//   facts.add_absent(pool.child(source, SK::Attr, name));   // no such attribute
//   facts.exempt(type);                                     // the capture made it: nothing below it is guarded
//
// No fact is ever removed. Two facts that bound one number become one.
#pragma once
#include <unordered_set>
#include <vector>

#include "guards/fact.h"

namespace gramme::guards {

class FactList {
 public:
  explicit FactList(source::Pool& pool) : pool_(pool) {}
  FactList(const FactList&) = delete;

  /// Adds the fact unless it is known, or cannot fail: a pinned object is always the same. Ends the segment at a source
  /// that is nested too deeply.
  void add(Fact fact);
  void add_type(const source::Source* source, PyTypeObject* type);
  void add_absent(const source::Source* source);
  void add_length(const source::Source* source, size_t length);
  /// The source reads this object, or (`same` is false) it does not.
  void add_identity(const source::Source* source, PyObject* object, bool same = true);

  /// Notes a type that the capture made. No outside reference can exist to it, or to what it has.
  void exempt(PyTypeObject* type) { made_.insert(type); }
  bool is_exempt(PyTypeObject* type) const { return !made_.empty() && made_.contains(type); }
  /// True if the source leads through such a type, or an instance of it. At the next call those are different objects.
  bool is_exempt(const source::Source* source) const;

  const std::vector<Fact>& all() const { return facts_; }

 private:
  source::Pool& pool_;
  std::vector<Fact> facts_;
  std::unordered_set<uint64_t> keys_;  // of facts_
  std::unordered_set<const PyTypeObject*> made_;
};

}  // namespace gramme::guards
