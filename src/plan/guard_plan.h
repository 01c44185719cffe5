// The flat guard program of a segment and its bound form.
//
// A Program is portable: it names objects by their sources. A GuardPlan is a program bound to the objects of one
// moment: per root, flat words {address, expected} in pre-order, tensor references and type tags, as
// ../shared/facts/hit-path.md describes; when the words of a root do not hold (or its object is another one) the
// program itself is walked from the root, and, if it holds, the words are taken anew.
//
// A check is one step for everybody else: the registers and the bound form belong to the plan, so no Python may run and
// the GIL is held from its first word to its last. Where it allocates, the garbage collector is off (finalizers might
// come back to this plan); what it lets go is handed to the caller, who drops it when nothing is looked at any more.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aten/state.h"
#include "base/mismatch.h"
#include "base/ref.h"
#include "guards/fact.h"
#include "guards/shapes.h"
#include "source/source.h"

namespace gramme::plan {

/// Where the roots of sources are, at this call. At a function's start `locals` are the bound arguments in localsplus
/// order.
struct Roots {
  PyObject* const* locals = nullptr;
  PyObject* const* stack = nullptr;
  PyFunctionObject* function = nullptr;
  PyObject* exception = nullptr;   // what the frame's generator or, if it is of none, the function handles, or null
  PyObject* outer = nullptr;       // what whoever resumed that generator handles, or null
  const Roots* callers = nullptr;  // of the frames that wait for this one's value, the nearest first
  int caller_count = 0;
};

/// What checks let go: dropping it may run finalizers, so any Python.
using Dropped = std::vector<Owned<>>;

/// What a capture found out, in the order it found it; portable.
struct GuardDescription {
  std::shared_ptr<source::Pool> pool;
  std::vector<guards::Fact> facts;
  std::vector<const source::Source*> reads;  // sources whose objects graph and replay need, read after the guards hold
  aten::GlobalState state;
  guards::ShapeGuards shapes = {};
  /// Objects that a check gives: what `reads` names, then the values of `shapes.numbers`.
  size_t object_count() const { return reads.size() + shapes.numbers.size(); }
  /// All that must hold, a line each.
  std::vector<std::string> print() const;
};

class GuardPlan {
 public:
  explicit GuardPlan(GuardDescription description);
  ~GuardPlan();
  /// Another of the same description, bound to nothing yet.
  GuardPlan(const GuardPlan& other);
  GuardPlan& operator=(const GuardPlan&) = delete;

  /// Adds facts to the description; to be called before the first check.
  void require(std::vector<guards::Fact> more);
  /// Other facts in the place of those of the description; to be called before the first check.
  void replace(std::vector<guards::Fact> facts);
  /// Adds conditions on the symbols that the description has; to be called before the first check.
  void require(std::vector<guards::ShapeGuards::Condition> more);
  /// Evaluates everything. On success `reads` (object_count() of the description) holds new references to the objects
  /// read and to the numbers.
  bool check(const Roots& roots, PyObject** reads, Dropped& dropped);
  /// False if the state, or a root without what hangs off it, is none that the guards hold of; cheap, and leaves the
  /// bound form alone.
  bool may_hold(const Roots& roots) const;
  /// The first fact that fails now; without a text if all hold.
  Mismatch explain(const Roots& roots) const;
  /// What each part of a check costs, if all holds now, for `costs`; what it lets go is put into `dropped`.
  void measure(const Roots& roots, Dropped& dropped);
  struct Cost {
    std::string what;  // the source of a root, or what else is looked at
    double seconds;    // the shortest of some checks
  };
  /// As last measured; empty if they never were.
  const std::vector<Cost>& costs() const;
  /// Throws the bound form away; the next check binds again. The result is what it held.
  Dropped unbind();
  const GuardDescription& description() const;
  /// The description's, kept here for hits.
  size_t object_count() const { return object_count_; }
  /// What holds the description, for the collector; one object for all plans of the same description.
  PyObject* basis() const;
  /// What all plans of the description keep beside it, in the place of what they kept, which is the answer: the graph
  /// that the capture made (backend/kept_graph.h). Guards that are required later keep nothing.
  Owned<> keep(Owned<> kept);
  PyObject* kept() const;  // borrowed; null if there is none
  struct Statistics {
    size_t facts, words, tensors, walks, rebinds;
  };
  Statistics statistics() const;

 private:
  struct Impl;
  template <class Change>
  void change(Change&& change);
  std::unique_ptr<Impl> impl_;
  size_t object_count_;
};

}  // namespace gramme::plan
