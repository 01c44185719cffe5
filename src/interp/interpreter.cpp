#include "interp/interpreter.h"

#include "cpython/objects.h"

namespace gramme::interp {

using namespace value;
using bytecode::Instruction;
using trace::Args;

Value* Interpreter::run_root(Frame& root) {
  root.root = true;
  root_ = &root;
  Outcome outcome = run(root);
  if (outcome.step != Step::Return) GRAMME_BUG("the root frame yielded");
  return outcome.value;
}

void Interpreter::count_root_step(Frame& frame) {
  bool resumable = frame.current->resumable;
  if (resumable) {
    if (steps_ >= stop_at_) throw Stopped{};
    resumable_step_ = steps_;
  }
  ++steps_;
}

Interpreter::Outcome Interpreter::loop(Frame& frame) {
  const Handler* table = handlers();
  const std::vector<Instruction>& instructions = frame.code->instructions();
  for (;;) {
    const Instruction& instruction = instructions[frame.pc];
    frame.current = &instruction;
    if (frame.root) count_root_step(frame);
    trace.tick();
    ++frame.pc;
    Step step = table[static_cast<int>(instruction.op)](*this, frame, instruction.arg);
    if (step != Step::Next) return {step, frame.pop()};
  }
}

namespace {
/// Makes a frame the current one for the time of its execution.
class Current {
 public:
  Current(trace::Trace& trace, Frame*& slot, Frame& frame) : trace_(trace), slot_(slot), before_(slot) {
    frame.back = slot;
    slot = &frame;
    ++trace_.depth;
  }
  ~Current() {
    slot_ = before_;
    --trace_.depth;
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
    }
  }
}

/// Goes to the handler that covers the current instruction; false if there is none.
bool Interpreter::unwind(Frame& frame, const UserError& error) {
  const bytecode::Handler* handler = frame.code->handler(frame.current->at);
  if (!handler) return false;
  if (frame.root && raise_step == SIZE_MAX) raise_step = resumable_step_;
  frame.keyword_names = nullptr;
  frame.stack.resize(handler->depth);
  if (handler->lasti) frame.push(trace.integer(frame.current->at));
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
  frame->keyword_names = nullptr;
  frame->generator = nullptr;
  frame->position = nullptr;
  return frame;
}

Namespace* builtins_of(trace::Trace& trace, Function* function) {
  auto* globals = static_cast<Namespace*>(function->globals);
  PyObject* builtins = function->existing() ? cpython::builtins_of(cpython::as_function(function->object)) : nullptr;
  static PyObject* name = intern("__builtins__");
  if (!builtins) builtins = PyDict_GetItem(globals->object, name);
  if (builtins && PyModule_Check(builtins)) builtins = PyModule_GetDict(builtins);
  static PyObject* module = PyImport_ImportModule("builtins");
  if (!builtins || builtins == PyModule_GetDict(module))
    return trace.namespace_of(PyModule_GetDict(module), trace.pool->child(trace.pool->pinned(module), source::Kind::InstanceDict));
  if (!function->existing()) cannot(Reason::SourceUnknown, "a function with builtins of its own");
  return trace.namespace_of(builtins, trace.pool->child(function->source, source::Kind::Builtins));
}

Value* Interpreter::call(Function* function, const Args& args) {
  trace.describe(function);
  Frame* frame = new_frame(function);
  bind(*frame, function, args);
  Value* result = run(*frame).value;
  if (result->kind != Kind::Generator || static_cast<Generator*>(result)->frame != frame) free_.push_back(frame);
  return result;
}

namespace {
[[noreturn]] void does_not_fit(Function* function) {
  cannot(Reason::ArgumentKind, std::string(PyUnicode_AsUTF8(function->name)) + "() called with arguments that do not fit");
}

int parameter_named(PyCodeObject* code, PyObject* name, int first, int last) {
  for (int i = first; i < last; ++i)
    if (PyTuple_GET_ITEM(code->co_localsplusnames, i) == name) return i;
  for (int i = first; i < last; ++i)
    if (PyUnicode_Compare(PyTuple_GET_ITEM(code->co_localsplusnames, i), name) == 0) return i;
  return -1;
}
}  // namespace

/// Arguments into slots as CPython does. What does not fit is called for real, for CPython's own message.
void Interpreter::bind(Frame& frame, Function* function, const Args& args) {
  PyCodeObject* code = function->code;
  size_t positional = code->co_argcount, all = positional + code->co_kwonlyargcount;
  bool varargs = code->co_flags & CO_VARARGS, varkeywords = code->co_flags & CO_VARKEYWORDS;
  std::vector<Value*>& slots = frame.slots;
  size_t given = std::min(args.positional, positional);
  for (size_t i = 0; i < given; ++i) slots[i] = args[i];
  if (varargs) {
    slots[all] = trace.tuple(std::vector<Value*>(args.values + given, args.values + args.positional));
  } else if (args.positional > positional) {
    does_not_fit(function);
  }
  Dict* extra = varkeywords ? trace.dict() : nullptr;
  if (extra) slots[all + varargs] = extra;
  for (size_t i = 0; i < args.keywords; ++i) {
    int at = parameter_named(code, args.names[i], code->co_posonlyargcount, static_cast<int>(all));
    if (at < 0 && extra) {
      extra->entries.set(trace.constant(args.names[i]), args[args.positional + i]);
      continue;
    }
    if (at < 0 || slots[at]) does_not_fit(function);
    slots[at] = args[args.positional + i];
  }
  if (function->defaults && given < positional) {
    auto* defaults = trace.see_as<Tuple>(function->defaults);
    if (!defaults) does_not_fit(function);
    size_t first = positional - std::min(positional, defaults->items.size());
    for (size_t i = std::max(first, given); i < positional; ++i)
      if (!slots[i]) slots[i] = defaults->items[i - first];
  }
  for (size_t i = positional; i < all; ++i) {
    if (slots[i] || !function->kwdefaults) continue;
    auto* defaults = trace.see_as<Dict>(function->kwdefaults);
    if (defaults) slots[i] = trace.dict_get(defaults, trace.constant(frame.variable(static_cast<int>(i))));
  }
  for (size_t i = 0; i < all; ++i)
    if (!slots[i]) does_not_fit(function);
}

// ---- generators

Value* Interpreter::resume(Generator* generator, Value* sent, const UserError* thrown, Value** returned) {
  if (generator->running) protocol::raise(trace, PyExc_ValueError, "generator already executing");
  if (!generator->frame) {
    if (thrown) throw UserError(*thrown);
    if (returned) *returned = trace.none();
    return nullptr;
  }
  Frame& frame = *generator->frame;
  Value* outside = trace.handled;
  struct Running {
    trace::Trace& trace;
    Generator* generator;
    Value* outside;
    ~Running() {
      generator->running = false;
      trace.handled = outside;
    }
  } running{trace, generator, outside};
  generator->running = true;
  if (generator->started && generator->handled) trace.handled = generator->handled;
  Outcome outcome;
  try {
    if (thrown) {
      Current current(trace, frame_, frame);
      if (!generator->started || !unwind(frame, *thrown)) throw UserError(*thrown);
    } else {
      frame.push(sent);
    }
    generator->started = true;
    outcome = run(frame);
  } catch (const UserError& error) {
    generator->frame = nullptr;
    PyTypeObject* type = protocol::type_of(trace.see(error.exception));
    if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration))) {
      Object* wrapped = protocol::make_exception(trace, reinterpret_cast<PyTypeObject*>(PyExc_RuntimeError), {trace.text("generator raised StopIteration")});
      wrapped->cause = wrapped->context = error.exception;
      throw UserError{wrapped};
    }
    throw;
  }
  generator->handled = trace.handled == outside ? nullptr : trace.handled;
  if (outcome.step == Step::Yield) return outcome.value;
  generator->frame = nullptr;
  if (returned) *returned = outcome.value;
  return nullptr;
}

// ---- what builtins ask about frames

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

Value* Interpreter::first_argument() {
  if (frame_->object()->co_argcount == 0 || frame_->slots.empty() || !frame_->slots[0]) return nullptr;
  Value* first = frame_->slots[0];
  auto* cell = as<Cell>(trace.see(first));
  return cell ? trace.cell_content(cell) : first;
}

const graph::Position* Interpreter::position_of(Frame* frame) {
  if (!frame || !frame->current) return nullptr;
  if (frame->position && frame->position->unit == frame->current->at) return frame->position;
  frame->position = trace.make<graph::Position>(frame->object(), static_cast<int>(frame->current->at), position_of(frame->back));
  return frame->position;
}

int Interpreter::root_line() { return root_ && root_->current ? root_->code->line(root_->current->at) : 0; }

}  // namespace gramme::interp
