// One run of the symbolic interpreter on live frames; a capture makes several until one ends where a segment can.
#pragma once
#include "interp/capture.h"
#include "interp/interpreter.h"

namespace gramme::interp {

/// One run, from the root frame's live objects up to the stop.
class Attempt {
 public:
  Attempt(const Start& start, const trace::Policy& policy, size_t stop_at)
      : start_(start), trace(policy), interp(trace, stop_at) {
    set_up();
  }
  /// Runs until the function returns or yields, or the stop is reached. Nullopt: an instruction cannot be captured.
  std::optional<trace::End> run();
  /// Call when it is known which generators outlive the segment.
  void check_generators();
  /// The number of waiting frames that it continued in.
  size_t returned() const { return callers_.size(); }
  /// The step of the instruction that called the innermost frame at the stop; SIZE_MAX if that is the root.
  size_t step_below() const { return stopped_in_ && stopped_in_ != root_ ? stopped_in_->back->begun_step : SIZE_MAX; }

 private:
  Value* run_roots();
  void set_up();
  void set_up(PyFunctionObject* function, PyCodeObject* code, PyObject* const* locals);
  void push_stack(PyObject* const* stack, int depth);
  Value* given(const Waiting& caller, Value* value);
  Value* given_to_caller(Value* value);
  void return_into_caller(Value* value);
  trace::End stopped();
  trace::End yielded(Value* value);
  void leave_root(trace::End& end, int offset, std::vector<Value*> stack);
  int resumes_at(const Frame& frame) const;
  std::vector<Value*> stack_of(const Frame& frame);
  void push_frames(trace::End& end);
  void note_handled(trace::End& end);
  std::vector<Value*> held_at(const trace::End& end) const;
  plan::LetGo let_go(const std::vector<Value*>& kept) const;
  void forget_locals(trace::End& end);
  bool callee_is_python(Frame& frame);

  const Start& start_;

 public:
  trace::Trace trace;
  Interpreter interp;

 private:
  Frame* root_ = nullptr;
  Frame* stopped_in_ = nullptr;
  std::vector<plan::Caller> callers_;
  Value* handled_at_start_ = nullptr;
};

}  // namespace gramme::interp
