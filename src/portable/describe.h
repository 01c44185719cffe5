// The inventory of a segment: how each object that it holds can be found again, and the other way round.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/kept.h"
#include "plan/segment.h"
#include "portable/object_ref.h"
#include "portable/visit.h"

namespace gramme::portable {

/// Objects of a segment, by the facts that say where a call has them.
class Describer {
 public:
  /// `code` is that of the frame in which the segment starts.
  Describer(const plan::Segment& segment, PyCodeObject* code, Naming& naming);
  ObjectRef describe(Place place, PyObject* object);

 private:
  void note(PyObject* object, const source::Source* source, ObjectRef::Part part);
  void note(const guards::Fact& fact);
  void note_facts(const plan::GuardDescription& guards);
  /// True if the held object that it begins with is found in the call, or by a name.
  bool begins_outside(const source::Source* source);
  ObjectRef described(PyObject* object, int depth);
  static ObjectRef of_set(PyObject* set, bool in_order);
  static Unportable reason_of(PyObject* object);

  struct InCall {
    uint32_t source;
    ObjectRef::Part part;
  };
  Naming& naming_;
  const ObjectRef* beyond_call(PyObject* object);
  ObjectRef of_opaque(PyObject* object, int depth);
  std::optional<ObjectRef> of_bound(PyObject* function, int depth);

  const source::Pool& pool_;
  std::unordered_map<PyObject*, InCall> in_call_;
  std::unordered_map<PyObject*, ObjectRef> beyond_call_;  // what hangs off that
  bool went_beyond_ = false;
};

struct Described {
  Place place;
  PyObject* object;  // the segment's
  ObjectRef ref;
};

/// All of a segment, in the order of visit().
std::vector<Described> describe(const plan::Segment& segment, PyCodeObject* code, Naming& naming);

/// The same of a graph that the segment stands for: what graph::Kept asks for, in that order.
std::vector<Described> describe(const graph::Kept& graph, const plan::Segment& segment, PyCodeObject* code,
                                Naming& naming);

/// Why not each object can be found again; empty if they can. What the backend made does not count.
std::vector<std::string> why_not_portable(const plan::Segment& segment, const std::vector<Described>& described);

}  // namespace gramme::portable
