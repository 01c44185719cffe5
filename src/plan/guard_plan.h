// The flat guard program of a segment and its bound form.
//
// A Program is portable: it names objects by their sources. A GuardPlan is a program bound to the objects of one
// moment: for each root, flat words {address, expected} in pre-order (bound.h). If the words of a root fail, or its
// object is a different one, the program is walked from that root. If it holds, the words are recorded again.
//
// A check is atomic for other threads: no Python runs, and the GIL is held from its first word to its last. Where it
// allocates, the collector is off, since finalizers might reenter the plan. References that it drops go to the caller,
// who releases them after the check.
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

/// The root objects of sources at this call. At a function's start `locals` are the bound arguments in localsplus
/// order.
struct Roots {
  PyObject* const* locals = nullptr;
  PyObject* const* stack = nullptr;
  PyFunctionObject* function = nullptr;
  PyObject* exception = nullptr;   // handled in the frame's generator, or by functions if there is none; or null
  PyObject* outer = nullptr;       // handled by whoever resumed that generator, or null
  const Roots* callers = nullptr;  // roots of the frames waiting for this one's value, nearest first
  int caller_count = 0;
};

/// References that checks drop. Releasing them may run finalizers, hence any Python.
using Dropped = std::vector<Owned<>>;

/// Everything that must hold, in the order in which the capture found it; portable.
struct GuardDescription {
  std::shared_ptr<source::Pool> pool;
  std::vector<guards::Fact> facts;
  std::vector<const source::Source*> reads;  // sources that graph and replay need, read once the guards hold
  aten::GlobalState state;
  guards::ShapeGuards shapes = {};
  /// The number of objects that a check fetches: those of `reads`, then the values of `shapes.numbers`.
  size_t object_count() const { return reads.size() + shapes.numbers.size(); }
  /// The guards as text, one line each.
  std::vector<std::string> print() const;
};

class GuardPlan {
 public:
  explicit GuardPlan(GuardDescription description);
  ~GuardPlan();
  /// Shares the description; the copy is not bound.
  GuardPlan(const GuardPlan& other);
  GuardPlan& operator=(const GuardPlan&) = delete;

  /// Adds facts to the description. Call before the first check.
  void require(std::vector<guards::Fact> more);
  /// Replaces the description's facts. Call before the first check.
  void replace(std::vector<guards::Fact> facts);
  /// Adds conditions on the description's symbols. Call before the first check.
  void require(std::vector<guards::ShapeGuards::Condition> more);
  /// Evaluates all guards. On success `reads` (object_count() items) holds new references to the objects and numbers
  /// read.
  bool check(const Roots& roots, PyObject** reads, Dropped& dropped);
  /// False if the thread's state, or a root without its subtree, already fails. Cheap, and leaves the bound form alone.
  bool may_hold(const Roots& roots) const;
  /// The first fact that fails now; with an empty text if all hold.
  Mismatch explain(const Roots& roots) const;
  /// Measures what each part of a check costs, for costs(), if all guards hold now. References that it drops go into
  /// `dropped`.
  void measure(const Roots& roots, Dropped& dropped);
  struct Cost {
    std::string what;  // a root's source, or the name of another part
    double seconds;    // the shortest of some checks
  };
  /// As last measured; empty if never measured.
  const std::vector<Cost>& costs() const;
  /// Drops the bound form; the next check binds again. Returns the references it held.
  Dropped unbind();
  const GuardDescription& description() const;
  /// The description's object_count(), cached for hits.
  size_t object_count() const { return object_count_; }
  /// The object that owns the description, for the collector; plans of one description share it.
  PyObject* basis() const;
  /// Stores an object for all plans of the description, the capture's graph (backend/kept_graph.h), and returns the one
  /// stored before. Guards that are required later store none.
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
