// The implementation of the runtime's Capturer: `interp` captures, a backend compiles.
#pragma once
#include <memory>
#include <optional>
#include <unordered_map>

#include "api/captured.h"
#include "api/report.h"
#include "base/ref.h"
#include "builtins/torch_rules.h"
#include "runtime/capturer.h"
#include "trace/trace.h"

namespace gramme::api {

/// The options of gramme.compile.
struct Options {
  Owned<> backend;                     // callable (GraphModule, example_inputs) -> callable
  std::optional<int> recompile_limit;  // none: PyTorch's setting at each capture
  bool keep_graphs = false;            // for explain()
  trace::Contract contract = trace::kClosed;
  std::optional<bool> dynamic;  // whether sizes vary: all (true), none (false), those that changed (no value)
  Owned<> guard_filter = {};    // callable, or null
  /// Entries with equal terms share captures (python/gramme/_terms.py). 0: shares with none. Odd: a compiler of PyTorch
  /// gets the graphs, so its settings count too.
  uint64_t terms = 0;
  bool shares = false;                          // this backend may get graphs that were captured for another
  std::vector<trace::NamedSource> varies = {};  // for gramme.export: the sizes and ints that vary
};

class Capturer final : public runtime::Capturer {
 public:
  explicit Capturer(Options options) : options_(std::move(options)) {}
  std::unique_ptr<plan::Segment> capture(const runtime::FrameView& frame) override;
  bool may_capture() const override;
  runtime::Terms terms() override;
  bool taken(const runtime::FrameView& frame, plan::Segment& segment) override;
  bool can_hand_over(const plan::Segment& segment, const std::vector<Owned<>>& inputs) override;
  bool hand_over(const runtime::FrameView& frame, plan::Segment& segment, const std::vector<Owned<>>& inputs) override;
  void missed(const runtime::FrameView& frame, const plan::Segment& segment) override;
  bool outlasts(plan::Segment& segment) override;
  void look(const runtime::FrameView& frame) override;
  bool generalize(const runtime::FrameView& frame) override;
  bool limit_reached(const runtime::FrameView& frame, int limit, const Mismatch& failing) override;
  bool wants_reasons() const override;
  void recompiling(const runtime::FrameView& frame, const std::vector<runtime::Missed>& missed) override;
  cpython::FrameRule rule_of(PyFunctionObject* function) override { return builtins::frame_rule(function); }
  int recompile_limit() const override;
  bool fullgraph() const override { return !options_.contract.breaks; }
  PyObject* backend() const override { return options_.backend.get(); }
  int traverse(visitproc visit, void* arg) const override {
    Py_VISIT(options_.backend.get());
    Py_VISIT(options_.guard_filter.get());
    return 0;
  }
  /// For tests: sets the policies of captures that begin at a function's start, and of all others.
  void tell(trace::Policy at_start, trace::Policy later) {
    options_.terms = 0;
    options_.shares = false;
    at_start_ = std::move(at_start);
    later_ = std::move(later);
  }
  /// Forgets what was learned from earlier captures.
  void forget() { points_.clear(); }

 private:
  /// Lets the backend compile the trace's graph.
  bool compile(PyObject* compiler, const trace::Trace& trace, const std::vector<Owned<>>& inputs,
               plan::Segment& segment, const runtime::FrameView& frame, Report& report) const;
  bool compile(PyObject* compiler, const graph::Graph& graph, const std::vector<Owned<>>& inputs,
               const CapturedForPython& captured, plan::Segment& segment, Report& report) const;
  struct Point {
    trace::Policy policy;
    CompileIds ids;
  };
  const std::shared_ptr<Point>& point_of(const runtime::FrameView& frame);
  std::unique_ptr<plan::Segment> capture(const runtime::FrameView& frame, trace::Policy& policy, Report& report,
                                         bool& refused) const;
  void set_dynamic(trace::Policy& policy) const;
  /// Warns of the segment's side effects, or raises, as torch._dynamo.config.side_effect_replay_policy says.
  static void judge_effects(const trace::Trace& trace);
  static void learn(trace::Policy& policy, const plan::Segment& segment);
  void insist_on_whole(const runtime::FrameView& frame, const plan::Segment* segment) const;

  Options options_;
  trace::Policy at_start_, later_;
  // What was learned from earlier captures, by resume point. A running capture keeps its own over a reset.
  std::unordered_map<uint64_t, std::shared_ptr<Point>> points_;
};

}  // namespace gramme::api
