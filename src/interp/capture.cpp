#include "interp/capture.h"

#include <algorithm>

#include "cpython/objects.h"
#include "interp/closing.h"
#include "interp/interpreter.h"

namespace gramme::interp {

using namespace value;
using trace::End;
using trace::Trace;

namespace {

/// One try: the root frame from the live objects, up to the stop.
class Attempt {
 public:
  Attempt(const Start& start, const trace::Policy& policy, size_t stop_at)
      : start_(start), trace(policy), interp(trace, stop_at) {
    set_up();
  }
  /// Runs until the function returns or the stop is reached.
  End run();
  /// When it is known what outlives the segment.
  void check_generators();
  Frame& frame() { return frame_; }

 private:
  void set_up();
  End stopped();
  void note_handled(End& end);
  void forget_locals(End& end);
  bool callee_is_python();

  const Start& start_;

 public:
  Trace trace;
  Interpreter interp;

 private:
  Frame frame_;
  std::vector<Value*> initial_;  // of the slots
  Value* handled_at_start_ = nullptr;
};

void Attempt::set_up() {
  auto* function_object = reinterpret_cast<PyObject*>(start_.function);
  Value* function = trace.see(trace.wrap(function_object, trace.pool->function()));
  frame_.function = as<Function>(function);
  if (!frame_.function) GRAMME_BUG("the root function is no function");
  trace.describe(frame_.function);
  frame_.code = &bytecode::decode(start_.code);
  frame_.globals = static_cast<Namespace*>(frame_.function->globals);
  frame_.builtins = builtins_of(trace, frame_.function);
  int count = start_.code->co_nlocalsplus;
  frame_.slots.assign(count, nullptr);
  for (int i = 0; i < count; ++i)
    if (start_.locals[i])
      frame_.slots[i] =
          trace.wrap(start_.locals[i], trace.pool->local(i, PyTuple_GET_ITEM(start_.code->co_localsplusnames, i)));
  initial_ = frame_.slots;
  for (int i = 0; i < start_.depth; ++i)
    frame_.push(start_.stack[i] ? trace.wrap(start_.stack[i], trace.pool->stack(i)) : trace.null());
  if (start_.exception && start_.exception != Py_None)
    trace.handled = trace.wrap(start_.exception, trace.pool->exception());
  handled_at_start_ = trace.handled;
  frame_.jump(start_.offset);
}

/// Is the value now what it was, perhaps looked into?
bool is_same(Value* before, Value* now) {
  return before == now || (before && now && before->kind == Kind::Lazy && static_cast<Lazy*>(before)->target == now);
}

void Attempt::note_handled(End& end) {
  end.exception = trace.handled;
  end.exception_changed = !is_same(handled_at_start_, trace.handled);
  if (end.exception_changed && trace.handled && !trace.handled->source)
    cannot(Reason::ReplayUnsupported, "an exception being handled");
}

/// A caught exception's traceback keeps the live frame beyond its return, and the frame what `except … as` has deleted.
void Attempt::forget_locals(End& end) {
  for (size_t i = 0; i < frame_.slots.size(); ++i)
    if (!is_same(initial_[i], frame_.slots[i])) end.locals.push_back({static_cast<int>(i), nullptr});
}

/// A generator that was left in the middle of a try or with runs code when it dies, and when that is is not known
/// unless it outlives the segment.
void Attempt::check_generators() {
  for (Generator* generator : trace.generators())
    if (generator->started && generator->frame && !generator->escapes && closing_runs_code(trace, *generator->frame))
      cannot(Reason::ReplayUnsupported, "a generator left in the middle of a try or with");
}

End Attempt::run() {
  try {
    End end;
    end.result = interp.run_root(frame_);
    note_handled(end);
    if (start_.offset != 0) forget_locals(end);
    return end;
  } catch (const Stopped&) {
    return stopped();
  }
}

/// Does the instruction call a function written in Python, which could be captured on its own?
bool Attempt::callee_is_python() {
  const auto& instructions = frame_.code->instructions();
  size_t at = frame_.pc;
  while (at < instructions.size() &&
         (instructions[at].op == bytecode::Op::KW_NAMES || instructions[at].op == bytecode::Op::PRECALL))
    ++at;
  const bytecode::Instruction& instruction = instructions[at];
  const bool spread = instruction.op == bytecode::Op::CALL_FUNCTION_EX;
  if (instruction.op != bytecode::Op::CALL && !spread) return false;
  const int arguments = spread ? 1 + (instruction.arg & 1) : instruction.arg;
  Value* below = frame_.peek(arguments + 2);
  Value* callee = trace.see(below->kind == Kind::Null ? frame_.peek(arguments + 1) : below);
  if (auto* method = as<Method>(callee)) callee = trace.see(method->function);
  if (callee->kind == Kind::Function && callee->object) {
    if (protocol::find_model(callee->object)) return false;
    try {
      return protocol::treatment(callee->object) == protocol::Treatment::Inline;
    } catch (const CannotCapture&) {  // disable(), graph_break()
      return false;
    }
  }
  if (callee->kind == Kind::Function) return true;
  return callee->kind == Kind::Object;
}

End Attempt::stopped() {
  if (frame_.locals) cannot(Reason::ReplayUnsupported, "the dict of locals() in the middle of a function");
  End end;
  end.kind = plan::ExitKind::Concrete;
  end.offset = frame_.code->instructions()[frame_.pc].offset;
  for (size_t i = 0; i < frame_.slots.size(); ++i) {
    if (!is_same(initial_[i], frame_.slots[i])) end.locals.push_back({static_cast<int>(i), frame_.slots[i]});
  }
  end.stack = frame_.stack;
  note_handled(end);
  end.capture_callee = callee_is_python();
  return end;
}

std::vector<Owned<>> example_inputs(const Trace& trace) {
  std::vector<Owned<>> inputs;
  for (const graph::Node* node : trace.scope().graph().placeholders())
    inputs.push_back(share(trace.scope().input(node)));
  return inputs;
}

/// Has the graph compiled in the state in which it will be called; a backend that raises in the middle of it leaves
/// nothing behind.
bool compile_graph(Trace& trace, const Compile& compile, plan::Segment& segment) {
  trace.scope().put_back();
  if (trace.scope().graph().empty()) return true;
  return aten::keeping_modes([&] { return compile(trace, example_inputs(trace), segment); });
}

/// A segment that does nothing and leaves the frame as it is.
std::unique_ptr<plan::Segment> idle(const Start& start, plan::GuardDescription guards, plan::ExitKind exit,
                                    plan::Ending ending) {
  auto segment = std::make_unique<plan::Segment>(std::move(guards));
  segment->start = start.offset;
  segment->exit.kind = exit;
  segment->exit.offset = start.offset;
  segment->exit.exception = plan::kKeep;
  segment->exit.frame_unchanged = true;
  segment->ending = std::move(ending);
  return segment;
}

/// The program's own exception leaves the function, or a long loop is to run for real: nothing has happened, the frame
/// runs plainly under the same guards.
std::unique_ptr<plan::Segment> hand_over(const Start& start, Attempt& attempt,
                                         plan::Ending ending = {"raises", "", ""}) {
  plan::GuardDescription guards{attempt.trace.pool, attempt.trace.facts(), {}, attempt.trace.scope().initial_state()};
  return idle(start, std::move(guards), plan::ExitKind::HandOver, std::move(ending));
}

std::string text_of(PyObject* text) {
  if (const char* utf8 = PyUnicode_AsUTF8(text)) return utf8;
  PyErr_Clear();
  return "?";
}

plan::Ending describe_ending(const CannotCapture& reason, Interpreter& interp) {
  plan::Ending ending{reason_text(reason.reason), reason.detail, reason_hint(reason.reason), interp.root_line()};
  auto [code, line] = interp.stopped_in();
  ending.file = text_of(code->co_filename);
  ending.function = text_of(code->co_qualname);
  ending.inner_line = line;
  ending.stack = interp.stopped_stack();
  return ending;
}

/// What the program was found to raise, and where.
plan::Ending describe_raise(const UserError& error) {
  plan::Ending ending{"raises", "", ""};
  auto* exception = as<Object>(error.exception);
  if (!exception) return ending;
  ending.detail = exception->type->tp_name;
  auto* args = exception->payload ? as<Tuple>(exception->payload) : nullptr;  // none of one from before
  if (args && !args->items.empty() && args->items[0]->kind == Kind::Constant && PyUnicode_Check(args->items[0]->object))
    ending.detail += ": " + text_of(args->items[0]->object);
  if (!exception->passed.empty()) ending.line = exception->passed.back().line;
  return ending;
}

/// Nothing can be captured from here: the instruction is carried out for real.
std::unique_ptr<plan::Segment> step_over(const Start& start, const Trace& trace, plan::Ending ending) {
  plan::GuardDescription guards{std::make_shared<source::Pool>(), {}, {}, trace.scope().initial_state()};
  return idle(start, std::move(guards), plan::ExitKind::Concrete, std::move(ending));
}

/// What the attempt taught is kept for the next one and for later captures. False: it knew all that before.
bool specialize(trace::Policy& policy, const std::vector<const source::Source*>& sources) {
  bool learned = false;
  for (const source::Source* source : sources) learned |= policy.specialized.insert(source->path).second;
  return learned;
}

/// Is a number an input of the graph that turned out to be needed as a constant later?
bool takes_specialized(const Trace& trace) {
  const auto& specialized = trace.specialized();
  const auto& inputs = trace.scope().graph().placeholders();
  return !specialized.empty() && std::any_of(inputs.begin(), inputs.end(), [&](const graph::Node* input) {
    return std::find(specialized.begin(), specialized.end(), input->source) != specialized.end();
  });
}

}  // namespace

std::unique_ptr<plan::Segment> capture(const Start& start, trace::Policy& policy, const Compile& compile, bool whole) {
  size_t stop_at = policy.stop_at;
  plan::Ending ending;
  policy.whole = whole;
  for (;;) {
    Attempt attempt(start, policy, stop_at);
    try {
      End end = attempt.run();
      std::unique_ptr<plan::Segment> segment = trace::finish(attempt.trace, end);
      attempt.check_generators();
      if (takes_specialized(attempt.trace) && specialize(policy, attempt.trace.specialized())) continue;
      for (const source::Source* number : attempt.trace.dynamic()) policy.dynamic.insert(number->path);
      segment->start = start.offset;
      segment->steps = attempt.interp.steps();
      segment->ending = ending;
      if (compile_graph(attempt.trace, compile, *segment)) return segment;
      return hand_over(start, attempt, {"the backend takes no such graph", "", ""});
    } catch (const CannotCapture& reason) {
      if (whole && reason.reason == Reason::OperatorFailed) return hand_over(start, attempt);
      if (ending.reason.empty()) ending = describe_ending(reason, attempt.interp);
      if (reason.reason == Reason::Budget && !whole) return hand_over(start, attempt, ending);
      bool rebuilding = reason.reason == Reason::ReplayUnsupported;
      size_t step = attempt.interp.resumable_step();
      if (attempt.interp.raise_step != SIZE_MAX) step = std::min(step, attempt.interp.raise_step);
      step = std::min(step, attempt.trace.stops_at());
      if (rebuilding && stop_at != SIZE_MAX) step = std::min(step, stop_at / 2);
      if (stop_at == 0) return step_over(start, attempt.trace, ending);
      stop_at = std::min(step, stop_at - 1);
    } catch (const trace::NeedsConstant& needed) {
      if (!specialize(policy, needed.sources)) GRAMME_BUG("specialised twice: " + needed.sources.front()->print());
    } catch (const UserError& error) {
      return hand_over(start, attempt, describe_raise(error));
    }
  }
}

}  // namespace gramme::interp
