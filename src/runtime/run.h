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
  Failed,       // the graph raised and was undone: run the code uncompiled instead. See take_failure()
  Raised,       // it raised after an irreversible write, so the exception leaves the frame: raise()
  Interrupted,  // by a signal, or by the end of a checkpoint's recomputation: an error is set
};

class SegmentRun {
 public:
  SegmentRun() = default;
  ~SegmentRun() { release(); }
  SegmentRun(const SegmentRun&) = delete;

  /// Selects a segment to check, replacing one whose guards failed.
  void begin(const SegmentPtr& segment);
  /// Evaluates the guards; runs no Python. On success this object owns references to all that graph and replay read.
  bool check(const plan::Roots& roots, plan::Dropped& dropped);
  /// Calls the compiled graph, if there is one, and puts its results into registers. The family's backend may be asked
  /// what an exception means; `family` may be null.
  GraphResult graph(const Family* family);
  std::unique_ptr<Failure> take_failure() { return std::move(failure_); }
  /// After Raised: makes the effects from before the node that raised, and sets its exception. Returns as raise_at_node
  /// does.
  int raise(PyFunctionObject* root);
  /// Makes the effects and fills the remaining registers. False with an error set: a bug or no memory.
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
