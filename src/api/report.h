// What the user hears of captures besides their results: logs (TORCH_LOGS), torch._dynamo.utils.counters and compile
// times. Nothing here may change what a program does: errors of handlers are reported and dropped.
//
// Counters and times are kept by torch._dynamo.utils, which FakeTensorMode imports before there is a first graph; what
// is captured without it is not counted (gramme.statistics has gramme's own). A log that is off costs a look into its
// logger's cache.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "api/recording.h"
#include "plan/segment.h"
#include "runtime/capturer.h"
#include "trace/policy.h"

namespace gramme::api {

/// What the captures at a resume point are called. Guarded by the GIL.
class CompileIds {
 public:
  /// What the next capture will be called.
  plan::CompileId next() {
    if (frame_ < 0) frame_ = frames_++;
    return {frame_, captures_};
  }
  plan::CompileId take() {
    const plan::CompileId id = next();
    ++captures_;
    return id;
  }

 private:
  int64_t frame_ = -1, captures_ = 0;
  static inline int64_t frames_ = 0;
};

/// One capture, from where it is made.
class Report final : trace::LineListener {
 public:
  /// `ids` outlive it.
  Report(const runtime::FrameView& frame, CompileIds& ids);
  /// What the capture is called, from the first time on that somebody asks.
  const plan::CompileId& id();
  /// Before anything is captured: logs the bytecode. Gives who wants to hear of the lines that are captured, or null.
  trace::LineListener* begin();
  /// True if there is a log that graph() would write to, or a recording.
  bool shows_graphs() const;
  /// The graph is that of another entry's capture, which is called so.
  void takes(const plan::CompileId& id) { taken_ = id; }
  /// Before the backend gets the graph, which is null if nobody looks at it. `captured`: what may be asked about it
  /// (api/captured.h).
  void graph(const Owned<>& module, PyObject* captured);
  /// The backend has compiled the graph.
  void compiled(int operations);
  /// The end; null if the frame runs plainly.
  void captured(plan::Segment* segment);
  /// The end of one that raises: the exception that is set stays.
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
  PyObject* first_;  // variable, borrowed of the frame
  int line_;
  Clock::time_point start_, graph_ready_;
  double backend_seconds_ = -1;
  int operations_ = 0;
  bool logged_;  // the structured log is written
  bool logs_lines_ = false;
  RecordedCapture recorded_;
  runtime::Span span_;
};

/// The object that a method was called on, as a rule; borrowed. None if there is no variable.
PyObject* first_of(const runtime::FrameView& frame);

/// A call that is carried out for real is several instructions; behind the first of them segments begin and end at
/// once, for the reason that was told already.
bool is_told(const plan::Segment& segment);

/// A list of (source, lowest, highest) of the sizes, strides, offsets and ints that vary; None where there is no bound.
Owned<> symbol_rows(const plan::Segment& segment);

/// The calls at whose end a capture ended, as a traceback shows them: a str.
Owned<> stack_text(const plan::Ending& ending);

/// True if it is worthwhile to say why known segments could not be used.
bool recompiles_are_logged();
void log_recompile(const runtime::FrameView& frame, const std::vector<runtime::Missed>& missed,
                   const plan::CompileId& id);

}  // namespace gramme::api
