// Running one segment: its guards, its graph, its effects.
//
//   SegmentRun run(segment);
//   if (run.check(roots) && run.graph(thread) == GraphResult::Done && run.replay()) use(run.value(register));
#pragma once
#include <memory>

#include "runtime/table.h"

namespace gramme::runtime {

enum class GraphResult : uint8_t {
  Done,
  Failed,       // the graph raised and nothing happened yet: run plainly instead. No error is set
  Interrupted,  // KeyboardInterrupt, SystemExit, the end of a checkpoint's recomputation: an error is set
};

class SegmentRun {
 public:
  explicit SegmentRun(const SegmentPtr& segment);
  ~SegmentRun() { release(); }
  SegmentRun(const SegmentRun&) = delete;

  /// Evaluates the guards; runs no Python. On success this holds references to all that graph and replay read.
  bool check(const plan::Roots& roots);
  /// Calls the compiled graph, if there is one. Its results become registers.
  GraphResult graph();
  /// Makes the effects; only then every register has its value. False with an error set: a bug or no memory.
  bool replay();
  /// Borrowed; null for kNull.
  PyObject* value(plan::Register r) const { return r < 0 ? nullptr : registers_[r]; }
  const plan::Segment& segment() const { return *segment_; }
  /// Drops all registers; finalizers may run.
  void release();

 private:
  bool call_graph();
  bool take_outputs(PyObject* outputs);
  void set_up_replay();
  int read_count() const { return static_cast<int>(segment_->guards.description().reads.size()); }

  SegmentPtr segment_;
  static constexpr int kSmall = 128;
  int owned_ = 0;         // registers_[0, owned_) are owned references or null, but for the replay's constants
  PyObject** registers_;  // raw, as plan::Replay::run wants them; only this class counts
  PyObject* small_[kSmall];
  std::unique_ptr<PyObject*[]> large_;
};

}  // namespace gramme::runtime
