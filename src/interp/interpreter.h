// Executes bytecode symbolically: a dispatcher, and one short function per opcode in family files (ops_*.cpp).
#pragma once
#include <map>
#include <optional>

#include "interp/frame.h"
#include "protocol/protocol.h"

namespace gramme::interp {

enum class Step : uint8_t { Next, Return, Yield };

/// How a root frame ended.
enum class Ended : uint8_t {
  NotYet,
  Returned,
  Yielded,
  Stopped,  // reached the instruction at which the capture is to end
  Refused,  // an instruction cannot be captured: refusal()
};

class Interpreter;
using Handler = Step (*)(Interpreter& interp, Frame& frame, int arg);
/// The functions of all opcodes, by opcode::Op.
const Handler* handlers();

/// Thrown when a frame above the root reaches the instruction at which the capture is to end.
struct Stopped {
  Frame* frame;
};

class Interpreter final : public trace::Inliner {
 public:
  Interpreter(trace::Trace& trace, size_t stop_at) : trace(trace), stop_at_(stop_at) { trace.inliner = this; }

  trace::Trace& trace;

  /// Runs the root frame to its end; may be called again for the frame that waited for it. Returns the frame's value
  /// or, for a generator, the yielded one; null if there is neither. Throws Stopped and UserError.
  Value* run_root(Frame& root);
  Ended ended() const { return ended_; }
  const CannotCapture& refusal() const { return *refusal_; }
  /// The step at which the last resumable instruction of the chain began.
  size_t resumable_step() const { return resumable_step_; }
  size_t steps_begun() const { return steps_; }
  /// The step at which an existing iterator was first asked for an item; SIZE_MAX if none was.
  size_t advance_step() const { return advance_step_; }
  /// The step that raised the exception still being handled; SIZE_MAX if none.
  size_t raise_step = SIZE_MAX;
  Frame* frame() const { return frame_; }
  struct Place {
    PyCodeObject* code;
    int line;
  };
  /// Where the capture stopped: the innermost frame of the program's code, else of a package's, else of any.
  Place stopped_in() const;
  /// The innermost module being called at that place; null outside modules.
  const graph::ModuleCall* stopped_module() const { return stopped_module_; }
  /// The calls that led to that place, the root frame's first.
  const std::vector<std::pair<Owned<>, int>>& stopped_stack() const { return stopped_stack_; }

  /// Declares that a segment may end in the next function that the frame's instruction calls.
  void may_enter(Frame& frame) { enterable_ = frame.chained ? &frame : nullptr; }

  // trace::Inliner
  void enter_opaque() override { enterable_ = nullptr; }
  void enter_init(const value::Class* cls, PyCodeObject* init) override;
  Value* call(value::Function* function, const trace::Args& args) override;
  Value* resume(value::Generator* generator, Value* sent, const value::UserError* thrown, Value** returned) override;
  Value* advance(value::Iterator* iterator) override;
  Value* variable(PyObject* name) override;
  std::string variable_of(const Value* held) override;
  bool is_in_local(Value* seen) override;
  bool holds_its_start() override;
  /// Guards whether the frame's variable is bound at the start, unless the capture itself bound or deleted it.
  void guard_bound(Frame& frame, int slot);
  void guard_unbound(const Frame& frame, int slot);
  Value* root_local(int64_t index) override {
    return source::frame_of(index) == returned_into_
               ? held_in(root_->slots[static_cast<size_t>(source::within_frame(index))])
               : nullptr;
  }
  value::Function* current_function() override { return frame_ ? frame_->function : nullptr; }
  trace::CallSite call_site(size_t outward) override;
  trace::FrameState state(const Frame& frame) override;
  Value* first_argument() override;
  const graph::Position* position() override { return position_of(frame_); }
  bool handles(bool with) const override;
  int root_line() override;
  size_t steps() override { return steps_ ? resumable_step_ + 1 : 0; }
  /// Watches a live frame's temporary: the instruction that takes it is carried out for real.
  void watch(Value* value) { watched_.push_back(value); }
  /// True if the frame holds a real object whose death runs code of the program.
  bool lets_go_of_code(const Frame& frame) const;
  /// locals() of the current frame: one dict per frame, updated at each call, or a new one each time (by CPython's
  /// version).
  Value* locals();
  /// Runs the body of a class with `names` as its namespace.
  Value* run_body(value::Function* body, value::Dict* names);

 private:
  void check_watched(const Frame& frame);
  /// The outcome of an exception thrown into an inner iterator: the value it yielded or returned.
  struct Delegated {
    Value *yielded = nullptr, *returned = nullptr;
  };
  Delegated throw_in_delegate(const value::Generator& generator, const value::UserError& thrown,
                              std::optional<value::UserError>& raised);
  struct Outcome {
    Ended ended;
    Value* value;
  };
  Outcome run(Frame& frame);
  Outcome loop(Frame& frame);
  void note_stop();
  /// The value in a slot, or in the cell there if the capture made it.
  static Value* held_in(Value* slot);
  bool count_step(Frame& frame);
  void show_line(Frame& frame);
  bool joins_chain(const value::Function* function);
  bool unwind(Frame& frame, const value::UserError& error);
  void note_passed(Frame& frame, const value::UserError& error);
  void bind(Frame& frame, value::Function* function, const trace::Args& args);
  const graph::Position* position_of(Frame* frame);
  Frame* new_frame(value::Function* function);
  void show_parameters(const Frame& frame);

  Frame* frame_ = nullptr;
  Frame* root_ = nullptr;
  Place stopped_in_{nullptr, 0};
  const graph::ModuleCall* stopped_module_ = nullptr;
  std::vector<std::pair<Owned<>, int>> stopped_stack_;
  std::vector<Frame*> free_;
  size_t stop_at_;
  size_t steps_ = 0, resumable_step_ = 0, advance_step_ = SIZE_MAX;
  /// The steps of the instructions that asked existing iterators for items.
  std::map<std::pair<value::Iterator*, const bytecode::Instruction*>, size_t> advanced_;
  bool from_start_ = false;  // the segment begins at the root function's start
  const Frame* first_root_ = nullptr;
  Value* first_handled_ = nullptr;
  std::vector<Value*> watched_;  // temporaries of live frames with finalizers
  bool ended_iterator_ = false;  // an existing iterator was exhausted
  Ended ended_ = Ended::NotYet;
  std::optional<CannotCapture> refusal_;
  int returned_into_ = 0;        // number of frames returned into
  Frame* enterable_ = nullptr;   // frame whose next callee joins the chain
  bool in_module_call_ = false;  // only torch.nn.Module's own code has run
};

Value* build_class(trace::Trace& trace, const trace::Args& args);  // the model of __build_class__ (ops_classes.cpp)
/// Registers the models of builtins that depend on the frame.
void register_models();

/// The namespace that the function uses as builtins (its `__builtins__`).
value::Namespace* builtins_of(trace::Trace& trace, value::Function* function);

}  // namespace gramme::interp
