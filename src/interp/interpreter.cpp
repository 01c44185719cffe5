#include "interp/interpreter.h"

#include <algorithm>

#include "base/once.h"
#include "cpython/objects.h"

namespace gramme::interp {

using namespace value;
using bytecode::Instruction;
using trace::Args;

namespace {
/// Is the code of torch.nn.Module.__call__ and what it is made of?
bool calls_modules(PyCodeObject* code) {
  constexpr std::string_view kFile = "torch/nn/modules/module.py";
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  return file && std::string_view(file).ends_with(kFile);
}
}  // namespace

Value* Interpreter::run_root(Frame& root) {
  root.root = true;
  root_ = &root;
  from_start_ = root.pc == 0;
  in_module_call_ = calls_modules(root.object());
  Outcome outcome = run(root);
  if (outcome.step != Step::Return) GRAMME_BUG("the root frame yielded");
  returned_ = true;
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
    trace.need_room();
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
    } catch (const CannotCapture&) {
      note_stop();
      throw;
    }
  }
}

/// Each frame that an exception passes is in its traceback; raising it again there adds none.
void Interpreter::note_passed(Frame& frame, const UserError& error) {
  auto* exception = as<Object>(trace.see(error.exception));
  bool again = frame.current->op == bytecode::Op::RERAISE ||
               (frame.current->op == bytecode::Op::RAISE_VARARGS && frame.current->arg == 0);
  if (!exception || again) return;
  frame.kept = true;
  exception->passed.push_back({&frame, frame.current->at, frame.code->line(frame.current->at)});
}

/// Goes to the handler that covers the current instruction; false if there is none.
bool Interpreter::unwind(Frame& frame, const UserError& error) {
  note_passed(frame, error);
  const bytecode::Handler* handler = frame.code->handler(frame.current->at);
  if (!handler) return false;
  trace.told(error.exception);
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
  frame->locals = nullptr;
  frame->position = nullptr;
  return frame;
}

Namespace* builtins_of(trace::Trace& trace, Function* function) {
  auto* globals = static_cast<Namespace*>(function->globals);
  PyObject* builtins = function->existing() ? cpython::builtins_of(cpython::as_function(function->object)) : nullptr;
  static PyObject* name = intern("__builtins__");
  if (!builtins) builtins = PyDict_GetItem(globals->object, name);
  if (builtins && PyModule_Check(builtins)) builtins = PyModule_GetDict(builtins);
  PyObject* const module = once([] { return PyImport_ImportModule("builtins"); });
  if (!builtins || builtins == PyModule_GetDict(module))
    return trace.namespace_of(PyModule_GetDict(module),
                              trace.pool->child(trace.pool->pinned(module), source::Kind::InstanceDict));
  if (!function->existing()) cannot(Reason::SourceUnknown, "a function with builtins of its own");
  return trace.namespace_of(builtins, trace.pool->child(function->source, source::Kind::Builtins));
}

Value* Interpreter::run_body(Function* body, Dict* names) {
  trace.describe(body);
  Frame* frame = new_frame(body);
  if (body->code->co_argcount || body->code->co_flags & (CO_OPTIMIZED | CO_GENERATOR))
    cannot(Reason::CallUnknown, "a class made of an unusual body");
  frame->locals = names;
  return run(*frame).value;
}

/// PyTorch's front end starts at a module's forward, so users and tools know its inputs by forward's parameters.
void Interpreter::show_parameters(const Frame& frame) {
  const PyCodeObject* code = frame.object();
  for (int i = 0; i < code->co_argcount + code->co_kwonlyargcount; ++i)
    if (const Value* value = frame.slots[static_cast<size_t>(i)]; value && value->source)
      source::Pool::show_as(value->source, frame.variable(i));
}

Value* Interpreter::call(Function* function, const Args& args) {
  trace.describe(function);
  Frame* frame = new_frame(function);
  bind(*frame, function, args);
  if (in_module_call_ && !calls_modules(function->code)) {
    in_module_call_ = false;
    show_parameters(*frame);
  }
  Value* result = run(*frame).value;
  bool suspended = result->kind == Kind::Generator && static_cast<Generator*>(result)->frame == frame;
  if (!suspended && !frame->kept) free_.push_back(frame);
  return result;
}

namespace {
/// A function with the same parameters that does nothing; each default is None.
Owned<> same_signature(trace::Trace& trace, Function* function) {
  PyObject* const nothing = once([] {
    Owned<> globals = take(PyDict_New());
    Owned<> code = take(Py_CompileString("lambda: None", "<signature>", Py_eval_input));
    Owned<> lambda = take(PyEval_EvalCode(code.get(), globals.get(), globals.get()));
    return take(PyObject_GetAttrString(lambda.get(), "__code__")).release();
  });
  PyCodeObject* code = function->code;
  int count = code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
              !!(code->co_flags & CO_VARKEYWORDS);
  Owned<> names = take(PyTuple_GetSlice(code->co_localsplusnames, 0, count));
  int flags = reinterpret_cast<PyCodeObject*>(nothing)->co_flags | (code->co_flags & (CO_VARARGS | CO_VARKEYWORDS));
  Owned<> parts =
      take(Py_BuildValue("{s:i,s:i,s:i,s:i,s:i,s:O}", "co_argcount", code->co_argcount, "co_posonlyargcount",
                         code->co_posonlyargcount, "co_kwonlyargcount", code->co_kwonlyargcount, "co_nlocals", count,
                         "co_flags", flags, "co_varnames", names.get()));
  Owned<> replace = take(PyObject_GetAttrString(nothing, "replace")), none = take(PyTuple_New(0)),
          globals = take(PyDict_New());
  Owned<> like = take(PyObject_Call(replace.get(), none.get(), parts.get()));
  Owned<> made = take(PyFunction_NewWithQualName(like.get(), globals.get(), function->qualname));
  auto* defaults = function->defaults ? trace.see_as<Tuple>(function->defaults) : nullptr;
  if (defaults) {
    Owned<> values = take(PyTuple_New(static_cast<Py_ssize_t>(defaults->items.size())));
    for (size_t i = 0; i < defaults->items.size(); ++i) PyTuple_SET_ITEM(values.get(), i, share(Py_None).release());
    check(PyFunction_SetDefaults(made.get(), values.get()));
  }
  if (auto* keywords = function->kwdefaults ? trace.see_as<Dict>(function->kwdefaults) : nullptr) {
    Owned<> values = take(PyDict_New());
    for (int i = code->co_argcount; i < code->co_argcount + code->co_kwonlyargcount; ++i) {
      PyObject* name = PyTuple_GET_ITEM(names.get(), i);
      if (trace.dict_get(keywords, trace.constant(name))) check(PyDict_SetItem(values.get(), name, Py_None));
    }
    check(PyFunction_SetKwDefaults(made.get(), values.get()));
  }
  return made;
}

/// Raises CPython's own TypeError for these arguments.
[[noreturn]] void does_not_fit(trace::Trace& trace, Function* function, const Args& args) {
  Owned<> like = same_signature(trace, function), names = take(PyTuple_New(static_cast<Py_ssize_t>(args.keywords)));
  for (size_t i = 0; i < args.keywords; ++i) PyTuple_SET_ITEM(names.get(), i, share(args.names[i]).release());
  std::vector<PyObject*> values(args.positional + args.keywords + 1, Py_None);
  if (Owned<>::steal(
          PyObject_Vectorcall(like.get(), values.data(), args.positional, args.keywords ? names.get() : nullptr)))
    cannot(Reason::ArgumentKind,
           std::string(PyUnicode_AsUTF8(function->name)) + "() called with arguments that do not fit");
  protocol::raise_current(trace);
}

int parameter_named(PyCodeObject* code, PyObject* name, int first, int last) {
  for (int i = first; i < last; ++i)
    if (PyTuple_GET_ITEM(code->co_localsplusnames, i) == name) return i;
  for (int i = first; i < last; ++i)
    if (PyUnicode_Compare(PyTuple_GET_ITEM(code->co_localsplusnames, i), name) == 0) return i;
  return -1;
}
}  // namespace

/// Arguments into slots as CPython does.
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
    does_not_fit(trace, function, args);
  }
  Dict* extra = varkeywords ? trace.dict() : nullptr;
  if (extra) slots[all + varargs] = extra;
  for (size_t i = 0; i < args.keywords; ++i) {
    int at = parameter_named(code, args.names[i], code->co_posonlyargcount, static_cast<int>(all));
    if (at < 0 && extra) {
      extra->entries.set(trace.constant(args.names[i]), args[args.positional + i]);
      continue;
    }
    if (at < 0 || slots[at]) does_not_fit(trace, function, args);
    slots[at] = args[args.positional + i];
  }
  if (function->defaults && given < positional) {
    auto* defaults = trace.see_as<Tuple>(function->defaults);
    if (!defaults) does_not_fit(trace, function, args);
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
    if (!slots[i]) does_not_fit(trace, function, args);
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
      if (auto* exception = as<Object>(trace.see(thrown->exception))) exception->retraced = true;
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
      Object* wrapped = protocol::make_exception(trace, reinterpret_cast<PyTypeObject*>(PyExc_RuntimeError),
                                                 {trace.text("generator raised StopIteration")});
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

Value* Interpreter::locals() {
  Frame& frame = *frame_;
  bool optimized = frame.object()->co_flags & CO_OPTIMIZED;
  if (!optimized || (frame.root && !from_start_))
    cannot(Reason::CallSkipped, "locals");  // the live frame may have its dict already
  if (!frame.locals) frame.locals = trace.dict();
  for (size_t i = 0; i < frame.slots.size(); ++i) {
    Value* value = frame.slots[i];
    if (auto* cell = value ? as<Cell>(trace.see(value)) : nullptr) value = trace.cell_content(cell);
    Value* name = trace.constant(frame.variable(static_cast<int>(i)));
    if (value)
      trace.dict_set(frame.locals, name, value);
    else
      trace.dict_erase(frame.locals, name);
  }
  return frame.locals;
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

/// The live frame of the root is not known to have ended where the segment does not go from its start to its return; a
/// generator's goes on.
trace::FrameState Interpreter::state(const Frame& frame) {
  bool ended = frame.root ? from_start_ && returned_ : !(frame.generator && frame.generator->frame);
  return {frame.function, frame.current->at, frame.slots, frame.stack, ended && !frame.locals};
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
/// Is the handler more than the end of a `with`, and of what clears up after it?
bool is_of_program(const bytecode::Code& code, const bytecode::Handler& handler) {
  const auto first = static_cast<size_t>(code.index_of(handler.target));
  const auto& instructions = code.instructions();
  if (instructions[first].op == bytecode::Op::COPY || instructions[first].op == bytecode::Op::POP_EXCEPT) return false;
  return instructions[first].op != bytecode::Op::PUSH_EXC_INFO || first + 1 == instructions.size() ||
         instructions[first + 1].op != bytecode::Op::WITH_EXCEPT_START;
}
}  // namespace

bool Interpreter::handles(bool with) const {
  for (const Frame* frame = frame_; frame; frame = frame->back) {
    if (!frame->current) continue;
    const bytecode::Handler* handler = frame->code->handler(frame->current->at);
    while (handler && !with && !is_of_program(*frame->code, *handler)) {
      const bytecode::Handler* outer = frame->code->handler(handler->target);
      handler = outer == handler ? nullptr : outer;
    }
    if (handler) return true;
  }
  return false;
}

namespace {
bool starts_with(PyObject* text, PyObject* prefix) {
  return PyUnicode_Tailmatch(text, prefix, 0, PY_SSIZE_T_MAX, -1) == 1;
}

PyObject* path_of(const char* name) {
  return take(PyObject_CallMethod(take(PyImport_ImportModule("sysconfig")).get(), "get_path", "s", name)).release();
}

/// The folder of a package, with what follows it in the names of its files.
PyObject* folder_of(const char* package) {
  Owned<> paths = take(PyObject_GetAttrString(take(PyImport_ImportModule(package)).get(), "__path__"));
  return take(PyUnicode_FromFormat("%U/", take(PySequence_GetItem(paths.get(), 0)).get())).release();
}

/// Whose line it is: the program's, an installed package's, or Python's, PyTorch's and our own, which say least.
enum class Owner { Program, Package, Library };
Owner owner_of(PyCodeObject* code) {
  PyObject* const gramme = once([] { return folder_of("gramme"); });
  PyObject* const torch = once([] { return folder_of("torch"); });
  PyObject* const stdlib = once([] { return path_of("stdlib"); });
  PyObject* const installed = once([] { return path_of("purelib"); });
  PyObject* file = code->co_filename;
  if (starts_with(file, gramme) || starts_with(file, torch)) return Owner::Library;
  if (starts_with(file, installed)) return Owner::Package;
  return starts_with(file, stdlib) ? Owner::Library : Owner::Program;
}
}  // namespace

/// At the innermost frame first: the outer ones, which the exception passes next, change nothing.
void Interpreter::note_stop() {
  if (stopped_in_.code) return;
  Frame* frame = frame_;
  for (Frame* outer = frame_->back; outer; outer = outer->back)
    if (owner_of(outer->object()) < owner_of(frame->object())) frame = outer;
  stopped_in_ = {frame->object(),
                 frame->current ? frame->code->line(frame->current->at) : frame->object()->co_firstlineno};
  for (frame = frame_; frame; frame = frame->back)
    if (frame->current)
      stopped_stack_.emplace_back(share(reinterpret_cast<PyObject*>(frame->object())), frame->current->at);
  std::reverse(stopped_stack_.begin(), stopped_stack_.end());
}

Interpreter::Place Interpreter::stopped_in() const {
  if (stopped_in_.code || !root_) return stopped_in_;
  return {root_->object(), root_->current ? root_->code->line(root_->current->at) : root_->object()->co_firstlineno};
}

int Interpreter::root_line() { return root_ && root_->current ? root_->code->line(root_->current->at) : 0; }

}  // namespace gramme::interp
