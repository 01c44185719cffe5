// Reports captures to the user: logs (TORCH_LOGS), torch._dynamo.utils.counters and compile times. Nothing here may
// change what a program does: errors of handlers are printed and dropped.
//
// torch._dynamo.utils has the counters and times. FakeTensorMode imports it before the first graph; captures without it
// are not counted there, but by gramme.statistics. A log that is off costs a look into its logger's cache.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "api/recording.h"
#include "base/process.h"
#include "plan/segment.h"
#include "runtime/capturer.h"
#include "trace/policy.h"

namespace gramme::api {

/// Gives ids to the captures at a resume point. Guarded by the GIL.
class CompileIds {
 public:
  /// The id of the next capture.
  plan::CompileId next() {
    if (frame_ < 0) frame_ = state_->frames++;
    return {frame_, captures_};
  }
  plan::CompileId take() {
    const plan::CompileId id = next();
    ++captures_;
    return id;
  }

 private:
  int64_t frame_ = -1, captures_ = 0;
  struct State {
    int64_t frames = 0;  // GIL, a word: numbers given
  };
  static OfProcess<State> state_;
};
inline OfProcess<CompileIds::State> CompileIds::state_;

/// The report of one capture, from its start to its end.
class Report final : trace::LineListener {
 public:
  /// `ids` must outlive it.
  Report(const runtime::FrameView& frame, CompileIds& ids);
  /// The capture's id, assigned at the first call.
  const plan::CompileId& id();
  /// Called before the capture: logs the bytecode. Returns the listener for captured lines, or null.
  trace::LineListener* begin();
  /// True if graph() would write to a log or a recording.
  bool shows_graphs() const;
  /// The graph comes from another entry's capture, which has this id.
  void takes(const plan::CompileId& id) { taken_ = id; }
  /// Called before the backend gets the graph. `module` is null if no log needs it; `captured` is the object of
  /// api/captured.h.
  void graph(const Owned<>& module, PyObject* captured);
  /// Called when the backend has compiled the graph.
  void compiled(int operations);
  /// Called at the end; null if the frame runs eagerly.
  void captured(plan::Segment* segment);
  /// Called at the end of a capture that raises; keeps the set exception.
  void failed();

 private:
  using Clock = std::chrono::steady_clock;
  void begins() override;
  void comes_to(PyCodeObject* code, int line, int depth) override;
  static bool logs_graphs();
  bool is_heard() const;
  nanobind::dict event();
  void tell_captured(plan::Segment* segment);
  void count(const plan::Segment* segment) const;
  void log_guards(const plan::Segment& segment) const;
  void log_sizes(const plan::Segment& segment) const;
  nanobind::tuple break_row(const plan::Segment& segment) const;
  void log_break(const plan::Segment& segment) const;

  CompileIds* ids_;
  plan::CompileId id_, taken_;
  PyCodeObject* code_;
  PyObject* first_;  // the frame's first variable, borrowed
  int line_;
  Clock::time_point start_, graph_ready_;
  double backend_seconds_ = -1;
  int operations_ = 0;
  bool logged_;  // the structured log is being written
  bool logs_lines_ = false;
  RecordedCapture recorded_;
  runtime::Span span_;
};

/// The frame's first variable, which is mostly `self`, borrowed; None if there is none.
PyObject* first_of(const runtime::FrameView& frame);

/// True for an empty segment whose break was reported already: an uncaptured call consists of several instructions, and
/// after each of them a segment begins and ends at once.
bool is_told(const plan::Segment& segment);

/// A list of (source, lowest, highest) for the sizes, strides, offsets and ints that vary; None for no bound.
Owned<> symbol_rows(const plan::Segment& segment);

/// The stack of calls at the end of a capture, formatted like a traceback: a str.
Owned<> stack_text(const plan::Ending& ending);

/// True if a log of recompiles is on.
bool recompiles_are_logged();
void log_recompile(const runtime::FrameView& frame, const std::vector<runtime::Missed>& missed,
                   const plan::CompileId& id);

}  // namespace gramme::api
