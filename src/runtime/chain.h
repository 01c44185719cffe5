// Running a frame as a chain of segments, with single instructions carried out for real in between.
#pragma once
#include <Python.h>

#include <optional>

#include "bytecode/code.h"
#include "cpython/concrete.h"
#include "runtime/callees.h"
#include "runtime/run.h"
#include "runtime/table.h"

namespace gramme::runtime {

/// Is this thread in the middle of a capture? Calls of entries then run plainly.
bool capturing();

/// One frame, from its first instruction to its end.
class Chain {
 public:
  Chain(const std::shared_ptr<Family>& family, PyThreadState* thread, cpython::LiveFrame frame);
  /// What the evaluator would give for the frame.
  PyObject* run();
  /// Did CPython get the frame before anything had happened in it?
  bool ran_plainly() const { return plain_; }

 private:
  /// What comes after a segment or an instruction.
  enum class Turn : uint8_t {
    Again,     // the frame stands at its next resume point
    Return,    // result_ is the function's value
    Leave,     // an exception leaves the frame
    Evaluate,  // CPython runs the rest
  };

  Turn turn();
  Turn step(bool into_callee);
  cpython::StepResult carry_out(bool into_callee);
  bool find_hit(ResumePoint& point, std::optional<SegmentRun>& run);
  Turn capture(ResumePoint& point);
  bool may_capture(ResumePoint& point);
  void tell_reasons(const ResumePoint& point);
  Turn run_new(ResumePoint& point, const SegmentPtr& segment);
  Turn run_segment(SegmentRun& run);
  Turn leave_by(SegmentRun& run);
  void write_back(SegmentRun& run);
  Turn raise_here();
  Turn leave_past_handlers(SegmentRun& run);
  Turn abandon();
  const bytecode::Instruction& instruction() const;
  plan::Roots roots() const;
  FrameView view() const;

  std::shared_ptr<Family> family_;
  std::shared_ptr<CodeTable> table_;
  PyThreadState* thread_;
  cpython::LiveFrame frame_;
  const bytecode::Code& code_;
  PyObject* result_ = nullptr;
  bool plain_ = false;
  std::unique_ptr<Failure> failure_;  // of the graph for which CPython runs the rest
  std::shared_ptr<Callees> callees_;  // of the instructions carried out for real, made with the first
  Owned<> handled_;                   // what the thread handled when the frame began
};

}  // namespace gramme::runtime
