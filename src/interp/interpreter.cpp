// The instruction loop, exceptions unwinding through frames, calls of Python functions, and resuming generators.
#include "interp/interpreter.h"

#include <algorithm>

#include "base/imported.h"
#include "base/once.h"
#include "base/signals.h"
#include "bytecode/idioms.h"
#include "cpython/image.h"
#include "cpython/objects.h"
#include "interp/closing.h"
#include "interp/continuations.h"
#include "torch/names.h"

namespace gramme::interp {

using namespace value;
using bytecode::Instruction;
using trace::Args;

namespace {
/// True for the frame of torch.fx.traceback.annotate, a generator that changes the annotations of nodes at its yield
/// and end.
bool is_annotation(const Frame& frame) {
  PyObject* const code = once([] {
    Owned<> function = take(PyObject_GetAttrString(imported("torch.fx.traceback", "annotate").get(), "__wrapped__"));
    return take(PyObject_GetAttrString(function.get(), "__code__")).release();
  });
  return reinterpret_cast<PyObject*>(frame.object()) == code;
}

/// Gives later nodes the annotations that the capture has for torch.fx.traceback.current_meta["custom"].
void look_at_annotations(trace::Trace& trace) {
  PyObject* const module = once([] { return imported("torch.fx", "traceback").release(); });
  static PyObject* const current = intern("current_meta");
  static PyObject* const custom = intern("custom");
  const Owned<> all = trace.concrete(protocol::get_attribute(trace, trace.pinned(module), current));
  PyObject* said = all && PyDict_CheckExact(all.get()) ? PyDict_GetItemWithError(all.get(), custom) : nullptr;
  trace.scope().graph().custom = said ? trace.keep(share(said)) : nullptr;
}

/// True for the code of torch.nn.Module.__call__ and its helpers.
bool calls_modules(PyCodeObject* code) { return of_torch::is_in(code->co_filename, of_torch::ModuleFile); }
}  // namespace

Value* Interpreter::run_root(Frame& root) {
  if (root_) {
    ++returned_into_;
  } else {
    first_root_ = &root;
    first_handled_ = trace.exceptions.handled;
  }
  root.root = root.chained = true;
  root_ = &root;
  from_start_ = root.pc == 0;
  ended_ = Ended::NotYet;
  in_module_call_ = from_start_ && calls_modules(root.object());
  Outcome outcome = run(root);
  ended_ = outcome.ended;
  return outcome.value;
}

/// Counts a step. False if the capture is to end here.
bool Interpreter::count_step(Frame& frame) {
  bool resumable = frame.current->resumable;
  if (resumable) {
    if (steps_ >= stop_at_) return false;
    resumable_step_ = frame.begun_step = steps_;
    frame.begun = frame.pc;
  }
  ++steps_;
  return true;
}

/// Reports a new line to the listener.
void Interpreter::show_line(Frame& frame) {
  const int line = frame.code->line(frame.current->at);
  if (line == frame.shown_line || line <= 0) return;
  frame.shown_line = line;
  trace.policy.lines->comes_to(frame.object(), line, trace.progress.depth());
}

Interpreter::Outcome Interpreter::loop(Frame& frame) {
  const Handler* table = handlers();
  const std::vector<Instruction>& instructions = frame.code->instructions();
  const bool shows_lines = trace.policy.lines != nullptr;
  for (;;) {
    const Instruction& instruction = instructions[frame.pc];
    frame.current = &instruction;
    if (shows_lines) [[unlikely]]
      show_line(frame);
    if (frame.chained && !count_step(frame)) {
      if (frame.root) return {Ended::Stopped, nullptr};
      throw Stopped{&frame};
    }
    enterable_ = frame.chained && instruction.enterable ? &frame : nullptr;
    look_for_signals();
    trace.progress.tick();
    ++frame.pc;
    Step step = table[static_cast<int>(instruction.op)](*this, frame, instruction.arg);
    if (frame.root && !watched_.empty() && step == Step::Next) [[unlikely]]
      check_watched(frame);
    if (step != Step::Next) return {step == Step::Yield ? Ended::Yielded : Ended::Returned, frame.pop()};
  }
}

/// Ends the segment before an instruction that drops a temporary with a finalizer, which must die then.
void Interpreter::check_watched(const Frame& frame) {
  auto holds = [](const std::vector<Value*>& values, Value* watched) {
    return std::ranges::any_of(values,
                               [&](const Value* value) { return value == watched || value == looked_into(watched); });
  };
  for (Value* watched : watched_)
    if (!holds(frame.stack, watched) && !holds(frame.slots, watched))
      trace.progress.stop_at(frame.begun_step, Reason::CallSkipped, "what takes a temporary that has a finalizer");
}

namespace {
/// Scope in which a frame is the current one.
class Current {
 public:
  Current(trace::Trace& trace, Frame*& slot, Frame& frame) : trace_(trace), slot_(slot), before_(slot) {
    trace.need_room();
    frame.back = slot;
    slot = &frame;
    trace_.progress.enter_call();
  }
  ~Current() {
    slot_ = before_;
    trace_.progress.leave_call();
  }

 private:
  trace::Trace& trace_;
  Frame*& slot_;
  Frame* before_;
};
}  // namespace

Interpreter::Outcome Interpreter::run(Frame& frame) {
  Current current(trace, frame_, frame);
  for (;;) {
    try {
      return loop(frame);
    } catch (const UserError& error) {
      if (!unwind(frame, error)) throw;
    } catch (const CannotCapture& refusal) {
      note_stop();
      if (!frame.root) throw;
      refusal_ = refusal;  // a thrown C++ exception costs as much as capturing some instructions
      return {Ended::Refused, nullptr};
    }
  }
}

/// Adds a traceback entry for a frame that the exception passes, once per frame. Tracebacks of existing exceptions are
/// left alone.
void Interpreter::note_passed(Frame& frame, const UserError& error) {
  auto* exception = as<Object>(trace.see(error.exception));
  bool again = frame.current->op == opcode::Op::RERAISE ||
               (frame.current->op == opcode::Op::RAISE_VARARGS && frame.current->arg == 0);
  if (!exception || again) return;
  if (exception->source && trace.contract.breaks)
    cannot(Reason::MutationUnsupported, "raising an exception that existed before");
  frame.kept = true;
  exception->passed.push_back({&frame, frame.current->at, frame.code->line(frame.current->at)});
}

/// Jumps to the handler that covers the current instruction; false if there is none.
bool Interpreter::unwind(Frame& frame, const UserError& error) {
  note_passed(frame, error);
  const bytecode::Handler* handler = frame.code->handler(frame.current->at);
  if (!handler) return false;
  trace.exceptions.told(error.exception, trace.inliner);
  if (frame.chained && raise_step == SIZE_MAX) raise_step = resumable_step_;
  frame.stack.resize(handler->depth);
  if (frame.root && !watched_.empty()) check_watched(frame);
  if (handler->lasti) frame.push(trace.constant(take(cpython::new_index(frame.current->at))));
  frame.push(error.exception);
  frame.jump(handler->target);
  return true;
}

// ---- calls

Frame* Interpreter::new_frame(Function* function) {
  Frame* frame;
  if (free_.empty()) {
    frame = trace.make<Frame>();
  } else {
    frame = free_.back();
    free_.pop_back();
  }
  frame->code = &bytecode::decode(function->code);
  frame->function = function;
  frame->globals = static_cast<Namespace*>(function->globals);
  frame->builtins = builtins_of(trace, function);
  frame->slots.assign(function->code->co_nlocalsplus, nullptr);
  frame->stack.clear();
  frame->pc = 0;
  frame->generator = nullptr;
  frame->locals = nullptr;
  frame->position = nullptr;
  frame->chained = false;
  frame->frameless = trace.progress.frameless;
  return frame;
}

Namespace* builtins_of(trace::Trace& trace, Function* function) {
  auto* globals = static_cast<Namespace*>(function->globals);
  PyObject* builtins = function->existing() ? cpython::builtins_of(cpython::as_function(function->object)) : nullptr;
  static PyObject* const name = intern("__builtins__");
  if (!builtins) builtins = PyDict_GetItem(globals->object, name);
  if (builtins && PyModule_Check(builtins)) builtins = PyModule_GetDict(builtins);
  PyObject* const module = once([] { return import_module("builtins"); });
  if (!builtins || builtins == PyModule_GetDict(module))
    return trace.objects.namespace_of(PyModule_GetDict(module),
                                      trace.pool->child(trace.pool->pinned(module), source::Kind::InstanceDict));
  if (!function->existing()) cannot(Reason::SourceUnknown, "a function with builtins of its own");
  return trace.objects.namespace_of(builtins, trace.pool->child(function->source, source::Kind::Builtins));
}

Value* Interpreter::run_body(Function* body, Dict* names) {
  enter_opaque();
  trace.describe(body);
  Frame* frame = new_frame(body);
  if (body->code->co_argcount || body->code->co_flags & (CO_OPTIMIZED | CO_GENERATOR))
    cannot(Reason::CallUnknown, "a class made of an unusual body");
  frame->locals = names;
  return run(*frame).value;
}

/// Names inputs by the parameters of a module's forward, where PyTorch's front end starts.
void Interpreter::show_parameters(const Frame& frame) {
  const PyCodeObject* code = frame.object();
  for (int i = 0; i < code->co_argcount + code->co_kwonlyargcount; ++i)
    if (const Value* value = frame.slots[static_cast<size_t>(i)]; value && value->source)
      source::Pool::show_as(value->source, frame.variable(i));
}

/// True if the callee's frame may end the segment. Only the first function that an instruction calls qualifies, since
/// carrying the instruction out again would repeat earlier ones. Frames of generators do not.
bool Interpreter::joins_chain(const Function* function) {
  constexpr int kLongest = 32;
  constexpr int kSuspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  Frame* enterable = std::exchange(enterable_, nullptr);
  return enterable && enterable == frame_ && frame_->chain_depth < kLongest && !(function->code->co_flags & kSuspends);
}

/// The instance exists, so the instruction carried out again calls __init__ in place of the class.
void Interpreter::enter_init(const Class* cls, PyCodeObject* init) {
  if (enterable_ && !(calls_class(trace, *enterable_, cls) && keeps_instance(bytecode::decode(init)))) enter_opaque();
}

Value* Interpreter::call(Function* function, const Args& args) {
  trace.describe(function);
  Frame* frame = new_frame(function);
  bind(*frame, function, args);
  if (joins_chain(function)) {
    frame->chained = true;
    frame->chain_depth = frame_->chain_depth + 1;
    frame->handled = trace.exceptions.handled;
  }
  if (in_module_call_ && !calls_modules(function->code)) {
    in_module_call_ = false;
    show_parameters(*frame);
  }
  Value* result = run(*frame).value;
  bool suspended = result->kind == Kind::Generator && static_cast<Generator*>(result)->frame == frame;
  if (!suspended && !frame->kept) free_.push_back(frame);
  return result;
}

// ---- generators

/// Throws into the iterator that a generator delegates to: GeneratorExit closes it, other exceptions are raised in it
/// if it has throw(). `raised` is set if the generator then gets a different exception.
Interpreter::Delegated Interpreter::throw_in_delegate(const Generator& generator, const UserError& thrown,
                                                      std::optional<UserError>& raised) {
  static PyObject* const close_name = intern("close");
  static PyObject* const throw_name = intern("throw");
  Value* inner = generator.started ? delegate_of(trace, *generator.frame) : nullptr;
  if (!inner) return {};
  Frame& frame = *generator.frame;
  Current current(trace, frame_, frame);
  Delegated result;
  try {
    if (protocol::matches(trace, thrown.exception, trace.pinned(PyExc_GeneratorExit))) {
      if (Value* close = protocol::find_attribute(trace, inner, close_name)) protocol::call(trace, close, {});
      return {};
    }
    if (inner->kind != Kind::Generator) {
      if (!protocol::find_attribute(trace, inner, throw_name)) return {};
      cannot(Reason::OpaqueCallback, "throw() of an iterator that a generator delegates to");
    }
    result.yielded = resume(static_cast<Generator*>(inner), nullptr, &thrown, &result.returned);
  } catch (const UserError& error) {
    if (protocol::matches(trace, error.exception, trace.pinned(PyExc_StopIteration)))
      cannot(Reason::OpaqueCallback, "StopIteration thrown through a generator");
    raised = error;
    if (protocol::matches(trace, thrown.exception, trace.pinned(PyExc_GeneratorExit))) return {};
  }
  if (result.yielded) return {result.yielded, nullptr};
  frame.pop();
  frame.jump(bytecode::delegation_of(*frame.code, *frame.current)->target);
  frame.current = &frame.code->instructions()[frame.pc - 1];
  return result;
}

Value* Interpreter::resume(Generator* generator, Value* sent, const UserError* thrown, Value** returned) {
  enter_opaque();
  trace.confinement.changes(generator);
  if (generator->running) protocol::raise(trace, PyExc_ValueError, "generator already executing");
  if (!generator->frame) {
    if (thrown) throw UserError(*thrown);
    if (returned) *returned = trace.none();
    return nullptr;
  }
  Frame& frame = *generator->frame;
  struct Running {
    trace::Trace& trace;
    Generator* generator;
    Value *handled = trace.exceptions.handled, *outer = trace.exceptions.outer_handled;
    ~Running() {
      generator->running = false;
      trace.exceptions.handled = handled;
      trace.exceptions.outer_handled = outer;
    }
  } running{trace, generator};
  generator->running = true;
  const bool annotates = is_annotation(frame);
  Outcome outcome;
  std::optional<UserError> raised;  // by the inner iterator
  Delegated delegated = thrown ? throw_in_delegate(*generator, *thrown, raised) : Delegated{};
  if (delegated.yielded) return delegated.yielded;
  if (raised) thrown = &*raised;
  trace.exceptions.outer_handled = trace.exceptions.current();
  trace.exceptions.handled = generator->handled;
  try {
    if (delegated.returned) {
      frame.push(delegated.returned);
    } else if (thrown) {
      if (auto* exception = as<Object>(trace.see(thrown->exception))) exception->retraced = true;
      Current current(trace, frame_, frame);
      if (!generator->started || !unwind(frame, *thrown)) throw UserError(*thrown);
    } else {
      frame.push(sent);
    }
    generator->started = true;
    outcome = run(frame);
    if (annotates) look_at_annotations(trace);
  } catch (const UserError& error) {
    generator->frame = nullptr;
    if (annotates) look_at_annotations(trace);
    PyTypeObject* type = protocol::type_of(trace.see(error.exception));
    if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration))) {
      Object* wrapped = protocol::make_exception(trace, reinterpret_cast<PyTypeObject*>(PyExc_RuntimeError),
                                                 {trace.text("generator raised StopIteration")});
      wrapped->cause = wrapped->context = error.exception;
      throw UserError{wrapped};
    }
    throw;
  }
  generator->handled = trace.exceptions.handled;
  if (outcome.ended == Ended::Yielded) return outcome.value;
  generator->frame = nullptr;
  if (returned) *returned = outcome.value;
  return nullptr;
}

}  // namespace gramme::interp
