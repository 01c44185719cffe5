// Running one segment: its guards, its graph, its effects.
//
//   SegmentRun run;
//   run.begin(segment);
//   if (run.check(roots, dropped) && run.graph(&family) == GraphResult::Done && run.replay()) use(run.value(register));
#pragma once
#include <memory>

#include "aten/recorded.h"
#include "runtime/failure.h"
#include "runtime/table.h"

namespace gramme::runtime {

enum class GraphResult : uint8_t {
  Done,
  Failed,       // the graph raised, and it is as if it had not run: run plainly instead. See take_failure()
  Raised,       // it raised what must leave the frame now: raise()
  Interrupted,  // the program was, or a checkpoint's recomputation ends: an error is set
};

class SegmentRun {
 public:
  SegmentRun() = default;
  ~SegmentRun() { release(); }
  SegmentRun(const SegmentRun&) = delete;

  /// Takes a segment to check, in the place of one that did not hold.
  void begin(const SegmentPtr& segment);
  /// Evaluates the guards; runs no Python. On success this holds references to all that graph and replay read.
  bool check(const plan::Roots& roots, plan::Dropped& dropped);
  /// Calls the compiled graph, if there is one. Its results become registers. The backend of the family may be asked
  /// what an exception means; it may be null.
  GraphResult graph(const Family* family);
  std::unique_ptr<Failure> take_failure() { return std::move(failure_); }
  /// After Raised: makes the effects that came before the node that raised, and sets its exception. See raise_at_node.
  int raise(PyFunctionObject* root);
  /// Makes the effects; only then every register has its value. False with an error set: a bug or no memory.
  bool replay();
  /// Borrowed; null for kNull.
  PyObject* value(plan::Register r) const { return r < 0 ? nullptr : registers_[r]; }
  const plan::Segment& segment() const { return *segment_; }
  const SegmentPtr& shared_segment() const { return segment_; }
  /// Drops all registers; finalizers may run.
  void release();

 private:
  class Before;
  GraphResult run_graph(const Family* family);
  GraphResult run_metered(const Family* family);
  GraphResult run_watched(const Family* family);
  void note_hit() const;
  GraphResult run_profiled(const Family* family);
  /// `*failed`: the node that raised, if that is known. `*given`: the number of outputs.
  bool call_graph(size_t* failed, Py_ssize_t* given);
  bool call_on(PyObject* const* inputs, size_t count, size_t* failed, Py_ssize_t* given);
  bool call_on_plain(PyObject** inputs, size_t count, size_t* failed, Py_ssize_t* given);
  bool take_outputs(PyObject* outputs, Py_ssize_t* given);
  void fail(PyObject* backend, size_t node, Py_ssize_t given);
  bool wrote_for_good() const;
  void replay_until(size_t node);
  void set_up_replay();
  int read_count() const { return static_cast<int>(segment_->guards.object_count()); }

  SegmentPtr segment_;
  std::unique_ptr<Failure> failure_;
  static constexpr int kSmall = 128;
  int owned_ = 0;                  // registers_[0, owned_) are owned references or null, but for the replay's constants
  PyObject** registers_ = small_;  // raw, as plan::Replay::run wants them; only this class counts
  PyObject* small_[kSmall];
  std::unique_ptr<PyObject*[]> large_;
};

}  // namespace gramme::runtime
