// Answers questions about the executing frames: variables for builtins, lines and call sites for the trace.
#include <algorithm>

#include "base/code_unit.h"
#include "base/text.h"
#include "bytecode/idioms.h"
#include "cpython/features.h"
#include "interp/interpreter.h"

namespace gramme::interp {

using namespace value;

using trace::Args;

Value* Interpreter::variable(PyObject* name) {
  PyObject* names = frame_->object()->co_localsplusnames;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), name) != 0) continue;
    Value* value = frame_->slots[i];
    auto* cell = value ? as<Cell>(trace.see(value)) : nullptr;
    return cell ? trace.cell_content(cell) : value;
  }
  return nullptr;
}

void Interpreter::guard_bound(Frame& frame, int slot) {
  if (!frame.root || from_start_) return;
  Value*& initial = frame.unread[static_cast<size_t>(slot)];
  if (initial && initial == frame.slots[static_cast<size_t>(slot)])
    trace.facts.add({initial->source, guards::Kind::Present, {}});
  initial = nullptr;
}

void Interpreter::guard_unbound(const Frame& frame, int slot) {
  if (frame.root && !from_start_ && !frame.initial[static_cast<size_t>(slot)])
    trace.facts.add_absent(trace.pool->local(slot, frame.variable(slot), returned_into_));
}

Value* Interpreter::held_in(Value* slot) {
  auto* cell = slot ? as<Cell>(slot) : nullptr;
  return cell ? cell->content : slot;
}

bool Interpreter::is_in_local(Value* seen) {
  return std::any_of(frame_->slots.begin(), frame_->slots.end(), [&](Value* value) {
    value = held_in(value);
    bool same = value && (value == seen || (value->object && value->object == seen->object));
    return same && trace.see(value) == seen;
  });
}

std::string Interpreter::variable_of(const Value* held) {
  auto is_it = [held](const Value* value) {
    auto* lazy = value && value->kind == Kind::Lazy ? static_cast<const Lazy*>(value) : nullptr;
    return value && (value == held || (lazy && lazy->target == held));
  };
  for (const Frame* frame = frame_; frame; frame = frame->back) {
    for (size_t i = 0; i < frame->slots.size(); ++i)
      if (is_it(frame->slots[i]) || is_it(held_in(frame->slots[i])))
        return utf8_of(frame->variable(static_cast<int>(i)));
    if (!frame->globals) continue;
    for (const auto& [name, global] : frame->globals->names)
      if (is_it(global.value)) return utf8_of(name);
  }
  return {};
}

namespace {
/// True if a place still holds its initial value `then`, or if `then` is a number or the like, whose death runs
/// nothing.
bool still_holds(const Value* then, Value* now) {
  if (!then || then == now) return true;
  then = looked_into(then);
  if (then->kind == Kind::Constant || then->kind == Kind::Number) return true;
  auto* cell = now ? as<Cell>(now) : nullptr;
  if (cell && !cell->existing()) now = cell->content;  // a cell that the frame made for the variable
  return now && then->object && then->object == now->object;
}
}  // namespace

bool Interpreter::holds_its_start() {
  auto all = [](const std::vector<Value*>& then, const std::vector<Value*>& now) {
    return now.size() >= then.size() && std::equal(then.begin(), then.end(), now.begin(), still_holds);
  };
  return !returned_into_ && !ended_iterator_ && still_holds(first_handled_, trace.exceptions.current()) &&
         all(first_root_->initial, root_->slots) && all(first_root_->initial_stack, root_->stack);
}

Value* Interpreter::locals() {
  Frame& frame = *frame_;
  bool optimized = frame.object()->co_flags & CO_OPTIMIZED;
  if (!optimized || (frame.root && !from_start_))
    cannot(Reason::CallSkipped, "locals");  // the live frame may already have a locals() dict
  Dict* locals = frame.locals ? frame.locals : trace.dict();
  if (!GRAMME_PYTHON_NEW_LOCALS) frame.locals = locals;
  for (size_t i = 0; i < frame.slots.size(); ++i) {
    Value* value = frame.slots[i];
    if (auto* cell = value ? as<Cell>(trace.see(value)) : nullptr) value = trace.cell_content(cell);
    Value* name = trace.constant(frame.variable(static_cast<int>(i)));
    if (value)
      trace.dict_set(locals, name, value);
    else
      trace.dict_erase(locals, name);
  }
  return locals;
}

namespace {
Value* model_of_locals(trace::Trace& trace, const Args& args) {
  protocol::expect(trace, args, "locals", 0, 0);
  return static_cast<Interpreter*>(trace.inliner)->locals();
}
}  // namespace

void register_models() {
  protocol::add_model("builtins", "locals", &model_of_locals, protocol::Takes::Asked);
  protocol::add_model("builtins", "__build_class__", &build_class, protocol::Takes::Asked);
}

/// The root's live frame has ended only if the segment runs from its start to its return. A generator's frame, and one
/// in which the segment ends, continue.
trace::FrameState Interpreter::state(const Frame& frame) {
  bool ended = frame.root ? from_start_ && ended_ == Ended::Returned
                          : !frame.left && !(frame.generator && frame.generator->frame);
  return {frame.function, frame.current->at, frame.slots, frame.stack, ended && !frame.locals};
}

trace::CallSite Interpreter::call_site(size_t outward) {
  const Frame* frame = frame_;
  if (trace.progress.frameless != frame->frameless) return {};
  for (; outward > 0; --outward) {
    const Frame* caller = frame->generator ? nullptr : frame->back;
    if (!caller || !caller->current || caller->frameless != frame->frameless) return {};
    frame = caller;
  }
  const int unit = static_cast<int>(frame->current->at);
  return {frame->globals, frame->object(), PyCode_Addr2Line(frame->object(), unit * kCodeUnit)};
}

Value* Interpreter::first_argument() {
  if (frame_->object()->co_argcount == 0 || frame_->slots.empty() || !frame_->slots[0]) return nullptr;
  Value* first = frame_->slots[0];
  auto* cell = as<Cell>(trace.see(first));
  return cell ? trace.cell_content(cell) : first;
}

const graph::Position* Interpreter::position_of(Frame* frame) {
  if (!frame || !frame->current) return nullptr;
  if (frame->position && frame->position->unit == frame->current->at) return frame->position;
  frame->position =
      trace.make<graph::Position>(frame->object(), static_cast<int>(frame->current->at), position_of(frame->back));
  return frame->position;
}

namespace {
/// True if the generator is suspended inside a `try` or `with`, which runs when it dies.
bool waits_in_block(const Generator* generator) {
  const Frame* frame = generator->started && !generator->running ? generator->frame : nullptr;
  return frame && frame->current && bytecode::statement_handler(*frame->code, frame->current->at);
}
}  // namespace

/// Ignores handlers of frames that the segment returned into: after a failed graph the first frame runs.
bool Interpreter::handles(bool with) const {
  if (returned_into_ || std::ranges::any_of(trace.generators(), waits_in_block)) return true;
  for (const Frame* frame = frame_; frame; frame = frame->back) {
    if (!frame->current) continue;
    const bytecode::Code& code = *frame->code;
    const bytecode::Handler* handler = bytecode::statement_handler(code, frame->current->at);
    while (handler && !with && bytecode::what_handles(code, *handler) != bytecode::Handles::Program) {
      const bytecode::Handler* outer = bytecode::statement_handler(code, handler->target);
      handler = outer == handler ? nullptr : outer;
    }
    if (handler) return true;
  }
  return false;
}

}  // namespace gramme::interp
