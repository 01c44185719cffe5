// Describes how each object that a segment holds can be found again.
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

/// Describes the objects of one segment. Facts of its guards state where a call has them.
class Describer {
 public:
  /// `code` belongs to the frame in which the segment starts.
  Describer(const plan::Segment& segment, PyCodeObject* code, Naming& naming);
  ObjectRef describe(Place place, PyObject* object);

 private:
  void note(PyObject* object, const source::Source* source, ObjectRef::Part part);
  void note(const guards::Fact& fact);
  void note_facts(const plan::GuardDescription& guards);
  /// True if the source's root, an object that the segment holds, is found in the call or by name.
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
  std::unordered_map<PyObject*, ObjectRef> beyond_call_;  // reachable from in_call_
  bool went_beyond_ = false;
};

struct Described {
  Place place;
  PyObject* object;  // as in the segment
  ObjectRef ref;
};

/// All objects of a segment, in the order of visit().
std::vector<Described> describe(const plan::Segment& segment, PyCodeObject* code, Naming& naming);

/// The same for the segment's graph: its objects in the order of graph::Kept.
std::vector<Described> describe(const graph::Kept& graph, const plan::Segment& segment, PyCodeObject* code,
                                Naming& naming);

/// Why objects cannot be found again; empty if all can. Objects that the backend made are left out.
std::vector<std::string> why_not_portable(const plan::Segment& segment, const std::vector<Described>& described);

}  // namespace gramme::portable
