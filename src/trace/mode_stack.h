// The modes of a capture: the thread is really in them while the program is traced, so that what follows is inferred
// under them. The segment must leave those it enters.
//
//   ModeStack modes;                       // the thread's state is the one that the capture found
//   const size_t step = modes.enter(now);  // a mode that is open until leave(step)
//   modes.when_put_back(undo);
//
// Rollback: put_back(), or the end of the stack, restores the thread's state as it was found. Nothing can be captured
// afterwards.
#pragma once
#include <functional>
#include <set>
#include <vector>

#include "aten/state.h"
#include "base/ref.h"
#include "meta/infer.h"
#include "value/value.h"

namespace gramme::trace {

/// A torch function mode of the program.
struct FunctionMode {
  value::Value* mode;
  size_t step;  // step of the root frame at which it was entered
};

class ModeStack {
 public:
  ModeStack();
  ~ModeStack() { put_back(); }
  ModeStack(const ModeStack&) = delete;

  // ---- the thread's state
  const aten::GlobalState& at_start() const { return state_; }
  bool grad_at_start() const { return grad_at_start_; }
  /// Registers an action of put_back(); the last registered runs first.
  void when_put_back(std::function<void()> undo) { undo_.push_back(std::move(undo)); }
  void put_back();
  /// Notes that the graph changes the thread's modes.
  void note_set() { are_set_ = true; }
  bool are_set() const { return are_set_; }

  // ---- modes that the segment must leave, each by the root step that enters it
  /// Returns the step.
  size_t enter(size_t step);
  void leave(size_t step);
  /// Transforms of torch.func that the graph has entered and not left.
  const std::vector<meta::Level>& levels() const { return levels_; }
  bool in_level() const { return !levels_.empty(); }
  void enter_level(meta::Level level, size_t step);
  void leave_level();
  /// The step that entered the first mode or transform still open; SIZE_MAX if none is.
  size_t first_open() const;

  // ---- who sees operations before they are captured
  /// Torch function modes entered in the segment and not left, the innermost last.
  const std::vector<FunctionMode>& function_modes() const { return function_modes_; }
  bool in_function_mode() const { return !function_modes_.empty(); }
  void push_function_mode(FunctionMode mode) { function_modes_.push_back(mode); }
  FunctionMode pop_function_mode();
  /// True if __torch_function__ of classes is called; false if the thread or the program switched that off.
  bool handlers_on() const { return !handlers_off_; }
  void switch_handlers(int by) { handlers_off_ += by; }

  // ---- torch's default dtype
  /// Notes one that the program set: later calls are inferred under it, but run under the former one.
  void note_default_dtype(PyObject* before, PyObject* now);
  /// True if calls are inferred under another one than they run under.
  bool has_other_dtype() const { return dtype_ != first_dtype_; }
  PyObject* first_dtype() const { return first_dtype_.get(); }
  PyObject* dtype() const { return dtype_.get(); }

  // ---- bodies of operators, which must leave the modes that they enter
  void enter_body();
  /// Ends the innermost body. False if the modes are not those at its start.
  bool leave_body();
  /// The same without a comparison, when the segment ends inside it.
  void abandon_body() { bodies_.pop_back(); }
  /// True if the innermost body stands inside a transform.
  bool is_body_in_level() const { return !bodies_.empty() && bodies_.back().levels; }

 private:
  struct BodyState {
    aten::GlobalState modes;
    size_t levels, function_modes;
    int handlers_off;
    bool operator==(const BodyState&) const = default;
  };
  BodyState now() const;

  const aten::GlobalState state_;
  const bool grad_at_start_;
  std::vector<std::function<void()>> undo_;
  std::multiset<size_t> entered_;
  std::vector<meta::Level> levels_;
  std::vector<size_t> level_steps_;  // the steps that entered the levels
  std::vector<FunctionMode> function_modes_;
  int handlers_off_;             // nesting depth of switching them off
  Owned<> first_dtype_, dtype_;  // the first default if it was ever changed, and the one now
  bool are_set_ = false;
  std::vector<BodyState> bodies_;  // at the start of each body being traced
};

/// Scope in which __torch_function__ of operands is not called.
class HandlersOff {
 public:
  explicit HandlersOff(ModeStack& modes) : modes_(modes) { modes.switch_handlers(1); }
  ~HandlersOff() { modes_.switch_handlers(-1); }
  HandlersOff(const HandlersOff&) = delete;

 private:
  ModeStack& modes_;
};

}  // namespace gramme::trace
