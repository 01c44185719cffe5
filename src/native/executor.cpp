// The Python type gramme._C.NativeGraph: chooses among recorded tapes, records new ones, or runs step by step; also
// vectorcall and statistics.
#include "native/executor.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <structmember.h>

#include <algorithm>
#include <optional>
#include <span>

#include "aten/python.h"
#include "base/once.h"
#include "native/call.h"
#include "native/parts.h"
#include "passes/linear.h"
#include "passes/recording.h"
#include "record/symbolic.h"
#include "tape/fused.h"
#include "tape/memory.h"

namespace gramme::native {
namespace {

/// The number of tapes kept for different inputs or thread states.
constexpr size_t kTapes = 8;

struct Executor {
  PyObject_HEAD;
  vectorcallfunc vectorcall;
  std::shared_ptr<const Program> program;
  std::vector<std::unique_ptr<Recorded>> recorded;
  std::shared_ptr<const Parts> parts;  // null: not known, or none
  Settings settings;
  bool recording, asked_for_parts;
  std::string why_autocast;  // why tapes leave casts to autocast; empty: they may have them
  Counters counters;
};

Executor* self_of(PyObject* object) { return reinterpret_cast<Executor*>(object); }

/// True if the thread has modes that see each operator, or a transform of functorch.
bool is_mode_active() {
  return c10::impl::TorchDispatchModeTLS::any_modes_set() || at::impl::torch_function_mode_enabled() ||
         !(c10::impl::tls_local_dispatch_key_set().included_ & c10::functorch_transforms_ks).empty();
}

/// True if Python code or functorch takes part in operators.
bool needs_python(PyObject* const* inputs, size_t count) {
  if (is_mode_active()) return true;
  return std::any_of(inputs, inputs + count,
                     [](PyObject* input) { return !is_plain_tensor(input) && aten::is_tensor(input); });
}

/// The program's inputs: the call's arguments, then present attributes of its module.
class Inputs {
 public:
  Inputs(const Program& program, PyObject* const* arguments) : objects_(arguments) {
    if (program.attributes.empty()) return;
    all_.assign(arguments, arguments + program.arguments());
    for (const Owned<>& name : program.attributes) {
      held_.push_back(module_attribute(program.module.get(), name.get()));
      all_.push_back(held_.back().get());
    }
    objects_ = all_.data();
  }
  PyObject* const* get() const { return objects_; }

 private:
  PyObject* const* objects_;
  std::vector<PyObject*> all_;
  std::vector<Owned<>> held_;
};

/// True if a program on wrappers may be divided: guards fix what it takes, and nothing sees its steps.
bool may_run_parts(const Executor& self) {
  return self.settings.trust == Trust::Guarded && !self.program->any_sizes && self.program->blocks.empty() &&
         (self.parts || !self.asked_for_parts) && !is_mode_active();
}

/// Runs a program on wrappers: its steps on plain tensors by tapes.
Owned<> run_parts(Executor& self, PyObject* const* inputs, size_t* tell) {
  ++self.counters.stepwise;
  const std::shared_ptr<const Program> program = self.program;
  if (const std::shared_ptr<const Parts> parts = self.parts) return parts->run(*program, inputs, tell);
  size_t failed = program->steps.size();
  Owned<> output;
  const Settings settings{Trust::Unguarded, self.settings.cached, self.settings.backward, false};
  try {
    std::shared_ptr<const Parts> parts = Parts::find(
        *program, inputs, [&](Program part) { return make_executor(std::move(part), settings); },
        settings.backward != Backward::Engine, output, &failed);
    if (parts) self.parts = std::move(parts);
  } catch (const PythonError&) {
    note_origin(*program, failed, tell);
    throw;
  }
  self.asked_for_parts = true;
  return output;
}

[[gnu::cold]] Owned<> run_plainly(Executor& self, PyObject* const* inputs, size_t* tell) {
  ++self.counters.stepwise;
  size_t failed = self.program->steps.size();
  std::shared_ptr<const Program> program = self.program;
  try {
    return run_stepwise(*program, inputs, &failed);
  } catch (const PythonError&) {
    note_origin(*program, failed, tell);
    throw;
  }
}

/// True if sizes may differ at the next call: the front end declares it, or passes whole numbers as arguments.
bool leaves_sizes_open(const Program& program, Trust trust, PyObject* const* inputs) {
  if (trust == Trust::Guarded) return program.any_sizes;
  return std::any_of(inputs, inputs + program.arguments(), Numbers::fits);
}

/// Why the backward is left to the engine; an empty text if it may be recorded, null if that is not wanted.
const char* why_engine(const Settings& settings, PyObject* const* inputs, size_t count) {
  if (settings.backward == Backward::Engine) return nullptr;
  const bool on_cpu = std::all_of(inputs, inputs + count, [](PyObject* input) {
    return !aten::is_tensor(input) || aten::tensor_of(input).is_cpu();
  });
  return on_cpu || settings.backward == Backward::Recorded ? "" : "a tensor that is not on the CPU";
}

[[gnu::cold]] Owned<> record(Executor& self, PyObject* const* inputs, size_t* tell) {
  std::shared_ptr<const Program> program = self.program;
  Owned<> keep = share(reinterpret_cast<PyObject*>(&self));
  struct Scope {
    explicit Scope(bool& flag) : flag(flag) { flag = true; }
    ~Scope() { flag = false; }
    bool& flag;
  } scope(self.recording);
  const bool guarded = self.settings.trust == Trust::Guarded;
  const bool any_sizes = leaves_sizes_open(*program, self.settings.trust, inputs);
  auto recorded = std::make_unique<Recorded>(
      guarded ? Conditions() : Conditions(*program, inputs, any_sizes, self.settings.recomputes));
  const char* const engine = why_engine(self.settings, inputs, program->arguments());
  const bool trains = engine && !*engine && c10::GradMode::is_enabled();
  const MemoryScope memory(Served::Passing, trains && self.settings.cached != Cached::Nothing);
  Recording recording(program, inputs, any_sizes, trains, guarded && self.why_autocast.empty());
  size_t failed = program->steps.size();
  Owned<> output;
  try {
    WithoutCollection no_finalizers;  // operators run by finalizers would be recorded
    output = recording.run(&failed);
  } catch (const PythonError&) {
    note_origin(*program, failed, tell);
    throw;
  }
  const std::string autocast = recording.why_autocast();
  if (!autocast.empty()) self.why_autocast = autocast;
  if (recording.fixed() || !autocast.empty()) {
    ++self.counters.stepwise;
    return output;
  }
  if (std::unique_ptr<const Tape> flat = recording.assemble_flat())
    recorded->training =
        Training::make(std::move(flat), {self.settings.recomputes, self.settings.cached != Cached::Nothing});
  recorded->why_not_training = engine && *engine ? engine : recording.why_not_flat();
  recorded->tape = recording.assemble();
  if (recorded->training) recorded->training->set_flags(second_derivatives_of(*recorded->tape));
  self.recorded.insert(self.recorded.begin(), std::move(recorded));
  ++self.counters.recorded;
  return output;
}

/// What the caller wants: the output whole or by items, and the failed step as a number or as a note.
struct Wanted {
  PyObject** outputs;
  size_t count;
  bool whole;
  size_t* failed;

  /// The places of the wanted results; nullopt if the output has another form.
  std::optional<std::span<const Place>> places(const Place& output) const {
    if (whole) return std::span(&output, 1);
    if (output.kind != Place::Sequence || output.items.size() != count) return std::nullopt;
    return std::span(output.items);
  }

  void take(Owned<> output) const {
    if (whole) return void(*outputs = output.release());
    Owned<> items = gramme::take(PySequence_Fast(output.get(), "a graph gives a tuple or list"));
    if (static_cast<size_t>(PySequence_Fast_GET_SIZE(items.get())) != count) {
      PyErr_Format(PyExc_RuntimeError, "a graph of %zu outputs gave %zd", count, PySequence_Fast_GET_SIZE(items.get()));
      throw PythonError();
    }
    for (size_t i = 0; i < count; ++i)
      outputs[i] = share(PySequence_Fast_GET_ITEM(items.get(), static_cast<Py_ssize_t>(i))).release();
  }
};

/// Runs a tape. False, without effects, if it does not fit these numbers.
[[gnu::hot]] bool replay(Recorded& recorded, const Settings& settings, PyObject* const* inputs, const Wanted& wanted) {
  const std::optional<std::span<const Place>> places = wanted.places(recorded.tape->output[0]);
  const bool trains = recorded.training && places && !settings.recomputes;
  if (trains && recorded.train(inputs, wanted.whole, wanted.outputs, wanted.failed)) return true;
  bool done = false;
  auto call = [&] {
    if (places) return void(done = recorded.call(inputs, *places, wanted.outputs, wanted.failed));
    PyObject* output;
    done = recorded.call(inputs, std::span(recorded.tape->output), &output, wanted.failed);
    if (done) wanted.take(Owned<>::steal(output));
  };
  const bool may_stay = settings.trust == Trust::Unguarded && (recorded.tape->has_modes || recorded.tape->has_python);
  may_stay ? aten::keeping_modes(call) : call();
  return done;
}

bool fits(const Recorded& recorded, Trust trust, PyObject* const* inputs) {
  const std::optional<KernelSettings>& settings = recorded.tape->settings;
  return (trust == Trust::Guarded || recorded.conditions.hold(inputs)) &&
         (!settings || *settings == KernelSettings::read());
}

[[gnu::hot]] void call_executor(Executor& self, PyObject* const* arguments, size_t count, const Wanted& wanted) {
  const Program& program = *self.program;
  if (count != program.arguments()) {
    PyErr_Format(PyExc_TypeError, "a native graph of %zu inputs was called with %zu", program.arguments(), count);
    throw PythonError();
  }
  ++self.counters.calls;
  const MemoryScope memory(Served::Small, self.settings.cached != Cached::Nothing);
  Inputs inputs(program, arguments);
  bool no_value = false;
  for (auto& recorded : self.recorded) {
    if (!fits(*recorded, self.settings.trust, inputs.get())) continue;
    if (replay(*recorded, self.settings, inputs.get(), wanted)) return;
    no_value = true;
    break;
  }
  const bool odd = program.wraps || needs_python(inputs.get(), static_cast<size_t>(program.inputs));
  const bool in_parts = odd && may_run_parts(self);
  const bool stepwise = odd || no_value || self.recording || self.recorded.size() >= kTapes;
  aten::keeping_modes([&] {
    wanted.take(in_parts   ? run_parts(self, inputs.get(), wanted.failed)
                : stepwise ? run_plainly(self, inputs.get(), wanted.failed)
                           : record(self, inputs.get(), wanted.failed));
  });
}

/// C++ exceptions end here.
[[gnu::hot]] bool call_safely(PyObject* self, PyObject* const* arguments, size_t count, const Wanted& wanted) noexcept {
  try {
    call_executor(*self_of(self), arguments, count, wanted);
    return true;
  } catch (const PythonError&) {
  } catch (...) {
    aten::set_python_error(std::current_exception());
  }
  return false;
}

PyObject* vectorcall(PyObject* self, PyObject* const* arguments, size_t nargsf, PyObject* names) noexcept {
  if (names && PyTuple_GET_SIZE(names)) {
    PyErr_SetString(PyExc_TypeError, "a native graph takes no keyword arguments");
    return nullptr;
  }
  PyObject* output = nullptr;
  const auto count = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
  return call_safely(self, arguments, count, {&output, 1, true, nullptr}) ? output : nullptr;
}

// ---- the Python type

template <class Visit>
int visit_operand(const Operand& operand, Visit&& visit) {
  if (operand.object)
    if (int stop = visit(operand.object.get())) return stop;
  for (const Operand& item : operand.items)
    if (int stop = visit_operand(item, visit)) return stop;
  return 0;
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  Executor* self = self_of(object);
  if (!self->program || self->program.use_count() > 1 + static_cast<long>(self->recorded.size())) return 0;
  auto each = [&](PyObject* held) { return visit(held, arg); };
  Py_VISIT(self->program->module.get());
  for (const Owned<>& block : self->program->blocks) Py_VISIT(block.get());
  if (self->parts && self->parts.use_count() == 1) {
    int stop = 0;
    self->parts->each_executor([&](PyObject* part) { stop = stop ? stop : visit(part, arg); });
    if (stop) return stop;
  }
  for (const Step& step : self->program->steps) {
    Py_VISIT(step.target.get());
    for (const Operand& argument : step.arguments)
      if (int stop = visit_operand(argument, each)) return stop;
    for (const auto& [name, argument] : step.keywords)
      if (int stop = visit_operand(argument, each)) return stop;
  }
  return 0;
}

int clear(PyObject* object) {
  Executor* self = self_of(object);
  auto recorded = std::move(self->recorded);
  recorded.clear();
  const auto parts = std::move(self->parts);
  auto program = std::move(self->program);
  self->program = std::make_shared<Program>();
  return 0;
}

void deallocate(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  Executor* self = self_of(object);
  self->~Executor();
  type->tp_free(object);
  Py_DECREF(type);  // counts by hand: an instance owns a reference to its heap type
}

PyTypeObject* type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(Executor, vectorcall), READONLY, nullptr}, {}};
  // no Python: addresses
  static PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                                {Py_tp_members, members},
                                {Py_tp_doc, const_cast<char*>("A captured graph that runs without Python.")},
                                {}};
  static PyType_Spec spec = {"gramme._C.NativeGraph", sizeof(Executor), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                 Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
                             slots};
  auto* const made = once([] { return reinterpret_cast<PyTypeObject*>(take(PyType_FromSpec(&spec)).release()); });
  return made;
}

}  // namespace

Owned<> make_executor(Program program, Settings settings) {
  Owned<> object = take(type()->tp_alloc(type(), 0));
  Executor* self = self_of(object.get());
  allow(settings.cached);
  new (&self->program) std::shared_ptr<const Program>(std::make_shared<const Program>(std::move(program)));
  new (&self->recorded) std::vector<std::unique_ptr<Recorded>>();
  new (&self->parts) std::shared_ptr<const Parts>();
  new (&self->counters) Counters();
  new (&self->why_autocast) std::string();
  self->vectorcall = vectorcall;
  self->settings = settings;
  self->recording = self->asked_for_parts = false;
  return object;
}

[[gnu::hot]] bool call_graph(PyObject* executor, PyObject* const* inputs, size_t input_count, PyObject** outputs,
                             size_t output_count, size_t* failed) noexcept {
  return call_safely(executor, inputs, input_count, {outputs, output_count, false, failed});
}

Owned<> call_recomputing(PyObject* executor, std::span<PyObject* const> inputs, std::span<const size_t> arguments,
                         bool keeps_random) {
  Executor& self = *self_of(executor);
  if (inputs.size() != static_cast<size_t>(self.program->inputs) || needs_python(inputs.data(), inputs.size()))
    return share(Py_None);
  for (auto& recorded : self.recorded) {
    if (!recorded->training || !fits(*recorded, self.settings.trust, inputs.data())) continue;
    PyObject* output;
    const bool may = keeps_random || !recorded->training->draws();
    if (may && recorded->train(inputs.data(), true, &output, nullptr, arguments)) return Owned<>::steal(output);
    break;  // without the GIL, another thread may have added tapes
  }
  return share(Py_None);
}

bool is_executor(PyObject* object) { return Py_TYPE(object) == type(); }

namespace {
using Visit = std::function<void(const char*, PyObject*)>;

void each_constant(const Operand& operand, const Visit& visit) {
  if (operand.object) visit("GraphConstant", operand.object.get());
  for (const Operand& item : operand.items) each_constant(item, visit);
}
}  // namespace

void each_object(PyObject* executor, const Visit& visit) {
  const Program& program = *self_of(executor)->program;
  for (const Step& step : program.steps) {
    visit("GraphTarget", step.target.get());
    for (const Operand& argument : step.arguments) each_constant(argument, visit);
    for (const auto& [name, argument] : step.keywords) each_constant(argument, visit);
  }
  each_constant(program.output, visit);
  if (program.module) visit("GraphModuleOfOperators", program.module.get());
}

std::string print_tapes(PyObject* executor) {
  std::string text;
  const std::string& autocast = self_of(executor)->why_autocast;
  if (!autocast.empty()) text += "under autocast: " + autocast + "\n";
  for (auto& recorded : self_of(executor)->recorded) {
    text += recorded->tape->print();
    if (recorded->training) text += recorded->training->print();
    if (!recorded->why_not_training.empty()) text += "not recorded: " + recorded->why_not_training + "\n";
  }
  for (const Owned<>& block : self_of(executor)->program->blocks) text += "checkpoint:\n" + print_tapes(block.get());
  if (const auto& parts = self_of(executor)->parts) {
    parts->each_executor([&](PyObject* part) { text += "between steps on wrappers:\n" + print_tapes(part); });
    parts->each_local([&](const LocalRun& run) { text += run.print(); });
  }
  return text;
}

Counters counters(PyObject* executor) {
  Counters counted = self_of(executor)->counters;
  for (const auto& recorded : self_of(executor)->recorded)
    if (recorded->training) counted.backwards += recorded->training->replayed();
  for (const Owned<>& block : self_of(executor)->program->blocks)
    counted.backwards += native::counters(block.get()).backwards;
  if (const auto& parts = self_of(executor)->parts) {
    parts->each_executor([&](PyObject* part) { counted.backwards += native::counters(part).backwards; });
    parts->each_local([&](const LocalRun& run) { counted.backwards += run.trained(); });
  }
  return counted;
}

namespace {

void count(const Instruction& instruction, Composition& found) {
  switch (instruction.kind) {
    case Instruction::Operator:
      ++(instruction.typed ? found.typed : found.boxed);
      return;
    case Instruction::View:
      ++found.views;
      return;
    case Instruction::Mode:
      ++found.modes;
      return;
    case Instruction::Number:
      return;
    case Instruction::Python:
      ++found.python;
      return;
    case Instruction::Fused:
      for (const Instruction& part : fused_of(instruction).parts) count(part, found);
      return;
  }
}

}  // namespace

Composition composition(PyObject* executor) {
  Composition found;
  const auto& recorded = self_of(executor)->recorded;
  if (recorded.empty()) return found;
  for (const Instruction& instruction : recorded[0]->tape->instructions) count(instruction, found);
  return found;
}

}  // namespace gramme::native
