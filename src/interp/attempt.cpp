// Setting up root frames from live ones, running them, and describing where the attempt ended: returned (perhaps into
// callers), yielded, or stopped with frames to push.
#include "interp/attempt.h"

#include <algorithm>

#include "cpython/lending.h"
#include "cpython/objects.h"
#include "interp/closing.h"
#include "interp/continuations.h"
#include "protocol/call_rules.h"
#include "trace/dying.h"

namespace gramme::interp {

using namespace value;
using trace::End;

namespace {

/// True if both are the same value; one may be the Lazy of the other.
bool is_same(Value* before, Value* now) { return before == now || (before && looked_into(before) == now); }

/// True if at another call an object in this place may run code when it dies. False for kinds that a guard identifies.
bool may_run_code(const Value* value) {
  const Kind kind = looked_into(value)->kind;
  return kind != Kind::Constant && kind != Kind::Number && kind != Kind::Null && kind != Kind::Class &&
         kind != Kind::Module && kind != Kind::Builtin;
}

/// The index of the instruction at the code unit, which is not an EXTENDED_ARG.
size_t index_at(const bytecode::Code& code, int unit) {
  const int index = code.index_of(unit);
  if (index < 0) GRAMME_BUG("a frame waits inside an instruction");
  return static_cast<size_t>(index);
}

}  // namespace

void Attempt::set_up() {
  if (trace.policy.lines) trace.policy.lines->begins();
  set_up(start_.function, start_.code, start_.locals);
  push_stack(start_.stack, start_.depth);
  if (start_.exception) trace.exceptions.handled = trace.wrap(start_.exception, trace.pool->exception());
  if (start_.outer) trace.exceptions.outer_handled = trace.wrap(start_.outer, trace.pool->exception(true));
  handled_at_start_ = trace.exceptions.handled;
  root_->jump(start_.offset);
}

/// Makes a root frame: the one in which the segment starts, or the next one that it returns into.
void Attempt::set_up(PyFunctionObject* function, PyCodeObject* code, PyObject* const* locals) {
  const int number = static_cast<int>(callers_.size());
  root_ = trace.make<Frame>();
  Value* seen = trace.see(trace.wrap(reinterpret_cast<PyObject*>(function), trace.pool->function(number)));
  root_->function = as<Function>(seen);
  if (!root_->function) GRAMME_BUG("the root function is no function");
  trace.describe(root_->function);
  static PyObject* const name = intern("G");
  if (number == 0) source::Pool::show_as(trace.pool->child(root_->function->source, source::Kind::Globals), name);
  root_->code = &bytecode::decode(code);
  root_->globals = static_cast<Namespace*>(root_->function->globals);
  root_->builtins = builtins_of(trace, root_->function);
  const int count = code->co_nlocalsplus;
  root_->slots.assign(static_cast<size_t>(count), nullptr);
  for (int i = 0; i < count; ++i)
    if (locals[i])
      root_->slots[static_cast<size_t>(i)] =
          trace.wrap(locals[i], trace.pool->local(i, PyTuple_GET_ITEM(code->co_localsplusnames, i), number));
  root_->initial = root_->unread = root_->slots;
}

void Attempt::push_stack(PyObject* const* stack, int depth) {
  const int number = static_cast<int>(callers_.size());
  for (int i = 0; i < depth; ++i) {
    const source::Source* source = trace.pool->stack(i, number);
    root_->push(stack[i] ? trace.wrap(stack[i], source) : trace.null());
    if (!stack[i]) trace.facts.add_absent(source);  // a NULL of the call protocol, beside the callable
    if (stack[i] && trace::runs_code(trace, stack[i])) interp.watch(root_->stack.back());
  }
  root_->initial_stack = root_->stack;
}

/// The value that the caller's waiting instruction produces from the callee's `value`; null if unknown.
Value* Attempt::given(const Waiting& caller, Value* value) {
  if (caller.gives != plan::Gives::Instance) return value;
  if (trace.see(value)->object != Py_None || !keeps_instance(*root_->code)) return nullptr;
  Value* instance = root_->slots[0];
  return instance->object && trace::runs_code(trace, instance->object) ? nullptr : instance;
}

/// The same for the frame that waits for the root; null if the segment must not continue there. That is so if
/// destroying the root frame runs code, or if an exception of the graph would have to be raised in the caller.
Value* Attempt::given_to_caller(Value* value) {
  const size_t next = callers_.size();
  if (next >= start_.callers.size() || root_->locals ||
      trace.scope().writes().lasting(trace.scope().inputs().objects()))
    return nullptr;
  if (!is_same(handled_at_start_, trace.exceptions.handled) || interp.lets_go_of_code(*root_)) return nullptr;
  const Waiting& caller = start_.callers[next];
  const bytecode::Code& code = bytecode::decode(caller.code);
  Value* result = given(caller, value);
  const bytecode::Instruction& instruction = code.instructions()[index_at(code, caller.unit)];
  return result && operands_of(instruction, trace.see(result)) ? result : nullptr;
}

void Attempt::return_into_caller(Value* value) {
  const Waiting& caller = start_.callers[callers_.size()];
  plan::Caller& place = callers_.emplace_back();
  place.code = Owned<PyCodeObject>::share(caller.code);
  place.unit = caller.unit;
  place.gives = caller.gives;
  place.lets_go = let_go({value});
  for (size_t i = 0; i < root_->slots.size(); ++i)
    if (!is_same(root_->initial[i], root_->slots[i])) place.dies.push_back(static_cast<int>(i));
  set_up(caller.function, caller.code, caller.locals);
  const size_t waits = index_at(*root_->code, caller.unit);
  const bytecode::Instruction& instruction = root_->code->instructions()[waits];
  push_stack(caller.stack, caller.depth - static_cast<int>(*operands_of(instruction, value)));
  push_value(trace, *root_, instruction.op, value);
  root_->pc = waits + 1;
}

/// All values that the frames hold at the end, and the segment's result.
std::vector<Value*> Attempt::held_at(const End& end) const {
  std::vector<Value*> held = root_->slots;
  auto add = [&](const std::vector<Value*>& more) { held.insert(held.end(), more.begin(), more.end()); };
  add(end.stack);
  for (const trace::FrameEnd& frame : end.pushed) {
    add(frame.slots);
    add(frame.stack);
  }
  held.push_back(end.result);
  return held;
}

/// The objects that the root held at the start and that are not among `kept`.
plan::LetGo Attempt::let_go(const std::vector<Value*>& kept) const {
  auto is_let_go = [&](Value* held) {
    return may_run_code(held) && std::ranges::none_of(kept, [&](Value* value) { return is_same(held, value); });
  };
  plan::LetGo result;
  const bool begins = start_.offset == 0 && callers_.empty();
  for (size_t i = 0; i < root_->initial.size(); ++i)
    if (root_->initial[i] ? is_let_go(root_->initial[i]) : !begins && root_->slots[i])
      result.slots.push_back(static_cast<int>(i));
  for (size_t i = 0; i < root_->initial_stack.size(); ++i)
    if (is_let_go(root_->initial_stack[i])) result.stack.push_back(static_cast<int>(i));
  return result;
}

void Attempt::note_handled(End& end) {
  end.exception = trace.exceptions.handled;
  end.exception_changed = !is_same(handled_at_start_, trace.exceptions.handled);
  if (end.exception_changed && trace.exceptions.handled && !trace.exceptions.handled->source)
    cannot(Reason::ReplayUnsupported, "an exception being handled");
}

/// Clears variables that changed, for a frame that outlives its return in the traceback of a caught exception: it must
/// not keep their old objects.
void Attempt::forget_locals(End& end) {
  for (size_t i = 0; i < root_->slots.size(); ++i)
    if (!is_same(root_->initial[i], root_->slots[i])) end.locals.push_back({static_cast<int>(i), nullptr});
}

/// Ends the segment if a suspended generator does not outlive it and would run code when closed: the time of its death
/// is unknown.
void Attempt::check_generators() {
  for (Generator* generator : trace.generators())
    if (generator->started && generator->frame && !generator->escapes && closing_runs_code(trace, *generator->frame))
      cannot(Reason::ReplayUnsupported, "a generator left in the middle of a try or with");
}

/// Runs the root to its end, then the waiting frames as long as it is known what they do with the value.
Value* Attempt::run_roots() {
  try {
    Value* result = interp.run_root(*root_);
    while (Value* given = interp.ended() == Ended::Returned ? given_to_caller(result) : nullptr) {
      return_into_caller(given);
      result = interp.run_root(*root_);
    }
    if (interp.ended() == Ended::Stopped) stopped_in_ = root_;
    return result;
  } catch (const Stopped& at) {
    stopped_in_ = at.frame;
    return nullptr;
  }
}

std::optional<End> Attempt::run() {
  Value* result = run_roots();
  if (stopped_in_) return stopped();
  if (interp.ended() == Ended::Refused) return std::nullopt;
  if (interp.ended() == Ended::Yielded) return yielded(result);
  End end;
  end.result = result;
  end.callers = callers_;
  note_handled(end);
  if (start_.offset != 0) forget_locals(end);
  end.lets_go = let_go(held_at(end));
  return end;
}

namespace {

bool runs_for_real(PyObject* function) {
  try {
    return protocol::treatment(function) != protocol::Treatment::Inline;
  } catch (const CannotCapture&) {  // disable(), graph_break()
    return true;
  }
}

/// The number of stack items above the callable and its neighbour.
int arguments_of(const bytecode::Instruction& call) { return opcode::pops(call.op, call.arg) - 2; }

}  // namespace

/// True if the instruction calls a Python function that can be captured on its own. False if a rule about its arguments
/// ended the segment.
bool Attempt::callee_is_python(Frame& frame) {
  const bytecode::Instruction& instruction = frame.code->instructions()[frame.pc];
  if (!is_call(instruction.op)) return false;
  Value* callee = trace.see(frame.called(arguments_of(instruction)).callable);
  if (auto* method = as<Method>(callee)) callee = trace.see(method->function);
  if (callee->kind == Kind::Function && callee->object) {
    if (protocol::find_call_rule(cpython::code_of(cpython::as_function(callee->object)))) return false;
    return !protocol::find_model(callee->object) && !runs_for_real(callee->object);
  }
  if (callee->kind == Kind::Function) return true;
  auto* object = as<Object>(callee);
  static PyObject* const call = intern("__call__");
  PyObject* method = object ? cpython::type_lookup(object->type, call) : nullptr;
  return object && !(method && PyFunction_Check(method) && runs_for_real(method));
}

/// The code unit at which a frame continues: the next instruction, or again the one that called.
int Attempt::resumes_at(const Frame& frame) const {
  return frame.code->instructions()[&frame == stopped_in_ ? frame.pc : frame.begun].offset;
}

std::vector<Value*> Attempt::stack_of(const Frame& frame) {
  if (&frame == stopped_in_) return frame.stack;
  const Frame* callee = stopped_in_;
  while (callee->back != &frame) callee = callee->back;
  return operands_anew(trace, frame, *callee);
}

/// Describes the frames above the root, outermost first.
void Attempt::push_frames(End& end) {
  std::vector<Frame*> chain;
  for (Frame* frame = stopped_in_; frame && frame != root_; frame = frame->back) chain.push_back(frame);
  std::reverse(chain.begin(), chain.end());
  for (Frame* frame : chain) {
    if (frame->locals) cannot(Reason::ReplayUnsupported, "the dict of locals() in the middle of a function");
    if (!is_same(frame->handled, trace.exceptions.handled))
      cannot(Reason::ReplayUnsupported, "an exception that a frame above handles");
    frame->left = true;
    const plan::Gives gives = gives_of(trace, *frame->back, frame->function);
    const bool alone = gives != plan::Gives::More && is_call(frame->back->current->op);
    std::vector<Value*> stack = stack_of(*frame);
    end.pushed.push_back({frame->function, resumes_at(*frame), frame->slots, std::move(stack), gives, alone});
  }
}

/// Describes the root's state for continuing at the code unit.
void Attempt::leave_root(End& end, int offset, std::vector<Value*> stack) {
  if (root_->locals) cannot(Reason::ReplayUnsupported, "the dict of locals() in the middle of a function");
  end.callers = callers_;
  end.offset = offset;
  push_frames(end);
  for (size_t i = 0; i < root_->slots.size(); ++i) {
    if (!is_same(root_->initial[i], root_->slots[i])) end.locals.push_back({static_cast<int>(i), root_->slots[i]});
  }
  end.borrowed = cpython::borrowed_items(root_->object(), offset, stack.size());
  end.stack = std::move(stack);
  end.lets_go = let_go(held_at(end));
  note_handled(end);
}

End Attempt::stopped() {
  End end;
  end.kind = plan::ExitKind::Concrete;
  leave_root(end, resumes_at(*root_), stack_of(*root_));
  end.capture_callee = callee_is_python(*stopped_in_);
  return end;
}

End Attempt::yielded(Value* value) {
  End end;
  end.kind = plan::ExitKind::Yield;
  end.result = value;
  leave_root(end, root_->code->instructions()[root_->pc].offset, root_->stack);
  return end;
}

}  // namespace gramme::interp
