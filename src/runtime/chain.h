// Running a frame as a chain of segments, with single instructions carried out for real in between.
#pragma once
#include <Python.h>

#include <optional>
#include <string>

#include "aten/dispatched.h"
#include "bytecode/code.h"
#include "cpython/concrete.h"
#include "runtime/callees.h"
#include "runtime/run.h"
#include "runtime/table.h"

namespace gramme::runtime {

/// Scope of a capture on this thread.
class Capturing {
 public:
  Capturing() { ++thread_.captures; }
  ~Capturing() { --thread_.captures; }
  Capturing(const Capturing&) = delete;

 private:
  friend bool capturing();
  struct Thread {
    int captures = 0;  // under way
  };
  // Each hit reads this; finding a thread-local by a call would cost twenty instructions.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local Thread thread_;
  aten::Uncounted uncounted_;
};

/// True if this thread is in the middle of a capture. Calls of entries then run uncompiled.
inline bool capturing() { return Capturing::thread_.captures > 0; }

/// The variables and stacks that a segment leaves in the frames it pushed. The frames take them one by one, outermost
/// first.
class Pushed {
 public:
  Pushed() = default;
  explicit Pushed(const SegmentRun& run);
  Pushed(Pushed&& other) noexcept { *this = std::move(other); }
  Pushed& operator=(Pushed&& other) noexcept;
  ~Pushed();
  explicit operator bool() const { return values_ != nullptr; }
  const plan::Exit& exit() const { return segment_->exit; }
  const plan::PushedFrame& frame(size_t index) const { return exit().pushed[index]; }
  Owned<> take() { return Owned<>::steal(values_[taken_++]); }
  /// Moves the variables and the stack of the index-th frame into `frame`.
  void fill(cpython::LiveFrame frame, size_t index);

 private:
  SegmentPtr segment_;
  // In the order of plan::PushedFrame, frame by frame. Those from `taken_` on are owned, and counted by hand for speed.
  std::unique_ptr<PyObject*[]> values_;
  size_t taken_ = 0, count_ = 0;
};

/// The state that a segment leaves in the frame where it ended.
struct Content {
  std::vector<std::pair<int, Owned<>>> locals;  // slots that change
  std::vector<Owned<>> stack;
  std::vector<int> borrowed;  // as of plan::Exit
  int offset = 0;
};

/// The same if the segment returned into an outer frame, which takes the state once the frames above have returned.
struct Landing {
  Content content;
  Owned<> result;  // Return, Yield
  plan::ExitKind kind;
  Pushed pushed;
};

/// Runs one frame from its first instruction to its end, or a generator's frame from where it is resumed to where it
/// yields.
class Chain {
 public:
  /// `taken`: the program did not call the function through its entry.
  Chain(const std::shared_ptr<Family>& family, PyThreadState* thread, cpython::LiveFrame frame, bool taken);
  /// For the frame that the caller's instruction made in the place of a segment's index-th pushed frame.
  Chain(Chain& caller, PyThreadState* thread, cpython::LiveFrame frame, Pushed& pushed, size_t index);
  /// Returns what the evaluator would return for the frame.
  PyObject* run();
  /// True if CPython got the frame before anything had happened in it.
  bool ran_plainly() const { return plain_; }

 private:
  /// What comes after a segment or an instruction.
  enum class Turn : uint8_t {
    Again,     // the frame stands at its next resume point
    Return,    // result_ is the function's value, or what it yields
    Leave,     // an exception leaves the frame
    Evaluate,  // CPython runs the rest
  };

  Turn turn();
  Turn turn_together();
  Turn begin();
  Turn step(bool into_callee);
  Turn step_watched(bool into_callee);
  Turn carry_out(bool into_callee);
  Turn push(Pushed& pushed, size_t index);
  Turn after(const cpython::StepResult& result);
  template <class CarryOut>
  cpython::StepResult capturing_callees(CarryOut carry_out);
  cpython::StepResult call_pushed(Pushed& pushed, size_t index);
  cpython::StepResult construct(Pushed& pushed, size_t index);
  bool find_hit(ResumePoint& point, SegmentRun& run);
  Turn capture(ResumePoint& point);
  /// A new segment of this entry, on its way to its first run.
  struct New {
    SegmentPtr segment;
    plan::Dropped dropped;
    std::optional<SegmentRun> run;
    bool checked = false;  // `run` has what a check of the guards gave, and no Python has run since
  };
  void find_segment(ResumePoint& point, New& found);
  void take_shared(ResumePoint& point, const Terms& terms, New& found);
  SegmentPtr hand_over(ResumePoint& point, const Terms& terms);
  SegmentPtr make_segment(ResumePoint& point, const Terms& terms);
  void leave_out_unfit(const ResumePoint& point, std::vector<SegmentPtr>& segments);
  FrameView view_of_capture(const ResumePoint& point, const Terms& terms);
  bool may_capture(ResumePoint& point);
  bool allowed_by_stance(ResumePoint& point);
  Mismatch why_not(const plan::Segment& segment);
  void tell_reasons(const ResumePoint& point);
  void measure_checks(const SegmentPtr& segment);
  Turn run_new(ResumePoint& point, New& found);
  bool has_room_for(const plan::Segment& segment) const;
  Turn run_segment(SegmentRun& run);
  Turn leave_by(SegmentRun& run);
  Turn yield(SegmentRun& run);
  Turn return_into_caller(SegmentRun& run);
  Turn land();
  Turn pass_on();
  Turn again_without_callers(const plan::Segment& segment);
  void put(Content content);
  void set_handled(const SegmentRun& run);
  bool raise_thrown();
  Turn raise_here();
  bool make_bool();
  Turn raise_or_abandon();
  Turn handle_signals();
  Turn leave_past_handlers(SegmentRun& run);
  Turn abandon();
  ResumePoint& point_here();
  CodeTable& table();
  const bytecode::Code& code() { return table().decoded(); }
  const bytecode::Instruction& instruction();
  plan::Roots roots();
  bool is_called_from(const plan::Segment& segment) const;
  bool lets_go_quietly(const plan::Segment& segment) const;
  FrameView view();

  const std::shared_ptr<Family>& family_;  // owned by whoever makes the chain
  std::shared_ptr<CodeTable> table_;       // null before its first use
  PyThreadState* thread_;
  cpython::LiveFrame frame_;
  [[no_unique_address]] cpython::SlotObjects slots_;  // roots() and view() point into these
  PyObject* result_ = nullptr;
  bool plain_ = false, taken_;
  Pushed* pushed_ = nullptr;                // until the frame has begun to run
  size_t index_ = 0;                        // the frame's index among them
  Chain* caller_ = nullptr;                 // the chain that waits for the frame, if segments may go on there
  size_t depth_ = 0;                        // number of callers, theirs included
  plan::Gives gives_ = plan::Gives::More;   // what the waiting instruction does with the frame's value
  bool taken_over_ = false;                 // a segment that began above has gone on here, or further out
  std::unique_ptr<Landing> landing_;        // the state it left, if it went on here
  std::vector<plan::Roots> callers_roots_;  // roots() points to these
  std::unique_ptr<Failure> failure_;        // set if a graph raised and CPython runs the rest
  std::shared_ptr<Callees> callees_;        // for concrete instructions, made at the first
  Owned<> handled_;                         // what the thread handled when a function's frame began
};

/// Carries out an instruction for real; Python functions that it calls run as the family's.
template <class CarryOut>
cpython::StepResult Chain::capturing_callees(CarryOut carry_out) {
  CalleesCaptured scope(thread_, callees_, family_, point_here());
  return carry_out();
}

}  // namespace gramme::runtime
