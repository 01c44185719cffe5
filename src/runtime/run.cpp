// Running a segment: saving what its graph may change, calling the graph in one of several ways (measured, profiled, on
// subclasses), and the registers that graph and replay share.
#include "runtime/run.h"

#include <algorithm>
#include <optional>

#include "aten/classes.h"
#include "aten/dispatched.h"
#include "aten/spec.h"
#include "aten/state.h"
#include "base/interruption.h"
#include "base/process.h"
#include "cpython/objects.h"
#include "cpython/variable.h"
#include "runtime/recording.h"
#include "torch/names.h"

namespace gramme::runtime {
namespace {

/// Saves content and versions of inputs that the graph writes before an operation that may raise.
class Inputs {
 public:
  Inputs(const plan::Segment& segment, PyObject* const* registers) : segment_(segment), registers_(registers) {}
  bool save() {
    for (const auto& [read, content] : segment_.restored)
      if (!saved_.emplace_back().keep(registers_[read], content)) return false;
    return true;
  }
  void restore() {
    for (size_t i = 0; i < saved_.size(); ++i) saved_[i].put_back(registers_[segment_.restored[i].read]);
  }

 private:
  const plan::Segment& segment_;
  PyObject* const* registers_;
  std::vector<aten::Content> saved_;
};

}  // namespace

/// State that the graph may change and that is restored if it raises.
class SegmentRun::Before {
 public:
  Before(const plan::Segment& segment, PyObject* const* registers) : segment_(segment), inputs_(segment, registers) {}
  bool save() {
    if ((segment_.random && !random_.save()) || !inputs_.save()) return false;
    if (segment_.sets_modes) modes_.save();
    return true;
  }
  void restore_modes() { modes_.restore(); }
  void restore_data() {
    random_.restore();
    inputs_.restore();
  }

 private:
  const plan::Segment& segment_;
  aten::RandomState random_;
  Inputs inputs_;
  aten::SavedModes modes_;
};

namespace {

/// True if the exception means that a checkpoint has recomputed all it needs. Its saved-tensor hook says so by raising
/// and has already counted the tensors; running again would count them twice.
bool ends_recomputation(PyObject* raised) {
  ErrorState pending;  // keeps `raised`
  return raised == of_torch::if_loaded(of_torch::StopRecomputationError);
}

/// Why the exception that is set is not the graph's own; None if it is.
enum class Stop : uint8_t { None, Interruption, EndOfRecomputation };

Stop why_stopped() {
  if (!PyErr_Occurred()) return Stop::None;
  if (ends_recomputation(PyErr_Occurred())) return Stop::EndOfRecomputation;
  return is_interruption() ? Stop::Interruption : Stop::None;
}

}  // namespace

[[gnu::hot]] void SegmentRun::begin(const SegmentPtr& segment) {
  segment_ = segment;
  const int count = std::max(segment->replay.registers, read_count() + segment->graph_outputs);
  if (count <= kSmall) return void(registers_ = small_);
  large_.reset(new PyObject*[static_cast<size_t>(count)]);
  registers_ = large_.get();
}

[[gnu::hot]] bool SegmentRun::check(const plan::Roots& roots, plan::Dropped& dropped) {
  if (!segment_->guards.check(roots, registers_, dropped)) return false;
  owned_ = read_count();
  return true;
}

namespace {

struct State {
  cpython::Variable profiled;  // GIL: the variable of torch.autograd.profiler that is set while it profiles
};
OfProcess<State> state;

[[gnu::cold]] bool find_profiler() {
  if (PyObject* module = of_torch::if_loaded(of_torch::Profiler))
    state->profiled.set(PyModule_GetDict(module), of_torch::attribute(of_torch::IsProfilerEnabled));
  return state->profiled.is_set();
}

[[gnu::always_inline]] inline bool is_profiled() {
  if (!state->profiled.is_set() && !find_profiler()) [[unlikely]]
    return false;
  PyObject* const now = state->profiled.value();
  return now != Py_False && now;
}

}  // namespace

[[gnu::hot]] GraphResult SegmentRun::graph(const Family* family) {
  if (!segment_->compiled) {
    if (is_watched()) [[unlikely]]
      note_hit();
    return GraphResult::Done;
  }
  counted->operators += segment_->operators;
  if (is_profiled()) [[unlikely]]
    return run_profiled(family);
  return is_watched() ? run_watched(family) : run_graph(family);
}

/// Runs the graph in a profiler region, named as PyTorch's front end names its compiled regions.
[[gnu::cold]] GraphResult SegmentRun::run_profiled(const Family* family) {
  const aten::RecordingPtr recording = aten::start_recording();
  if (recording) aten::name(*recording, "Torch-Compiled Region: " + segment_->compile_id.print());
  return is_watched() ? run_watched(family) : run_graph(family);
}

/// Records the run; a recording shows runs without a graph too.
[[gnu::cold]] void SegmentRun::note_hit() const {
  if (Recording* recording = Recording::current()) recording->ran(segment_->recorded, ticks(), 0);
}

[[gnu::cold]] GraphResult SegmentRun::run_watched(const Family* family) {
  const Recording* const recording = Recording::current();
  if (!recording) return run_metered(family);
  Span span;
  const GraphResult result = counted->watchers > 1 ? run_metered(family) : run_graph(family);
  const Ticks own = span.end();
  if (recording == Recording::current()) Recording::current()->ran(segment_->recorded, span.start(), own);
  return result;
}

/// Counts the operators that eager execution would have dispatched. What the graph dispatches depends on the backend.
[[gnu::cold]] GraphResult SegmentRun::run_metered(const Family* family) {
  aten::Uncounted uncounted;
  const GraphResult result = run_graph(family);
  if (result != GraphResult::Done) return result;
  ++thread_counters().graphs;
  thread_counters().operators += segment_->operators;
  return result;
}

[[gnu::hot]] GraphResult SegmentRun::run_graph(const Family* family) {
  std::optional<Before> before;
  if (segment_->changes_state() && !before.emplace(*segment_, registers_).save()) {
    PyErr_Clear();
    return GraphResult::Failed;
  }
  size_t failed = Failure::kUnknown;
  Py_ssize_t given = segment_->graph_outputs;
  if (call_graph(&failed, &given)) return GraphResult::Done;
  const Stop stop = why_stopped();
  const bool interrupted = stop != Stop::None;
  if (!interrupted) fail(family ? family->capturer().backend() : nullptr, failed, given);
  const bool lasts = !interrupted && (failure_->at_once || wrote_for_good());
  if (!interrupted && !lasts) let_go(*failure_);
  if (before) before->restore_modes();
  if (lasts) return GraphResult::Raised;
  if (stop == Stop::EndOfRecomputation || (interrupted && segment_->lasting)) return GraphResult::Interrupted;
  if (before) before->restore_data();
  return interrupted ? GraphResult::Interrupted : GraphResult::Failed;
}

[[gnu::cold]] void SegmentRun::fail(PyObject* backend, size_t node, Py_ssize_t given) {
  const bool wrong = given != segment_->graph_outputs;
  failure_ = wrong ? wrong_outputs(backend, segment_->graph_outputs, given)
                   : runtime::take_failure(backend, segment_->compiled.get(), node);
}

bool SegmentRun::wrote_for_good() const {
  const plan::LastingWrites* lasting = segment_->lasting.get();
  return lasting && (failure_->node == Failure::kUnknown || failure_->node >= lasting->first);
}

[[gnu::always_inline]] inline bool SegmentRun::call_on(PyObject* const* inputs, size_t count, size_t* failed,
                                                       Py_ssize_t* given) {
  PyObject* compiled = segment_->compiled.get();
  if (!segment_->call) {
    auto outputs = Owned<>::steal(PyObject_Vectorcall(compiled, inputs, count, nullptr));
    return outputs && take_outputs(outputs.get(), given);
  }
  const auto outputs = static_cast<size_t>(segment_->graph_outputs);
  if (!segment_->call(compiled, inputs, count, registers_ + owned_, outputs, failed)) return false;
  owned_ += segment_->graph_outputs;
  return true;
}

[[gnu::hot]] bool SegmentRun::call_graph(size_t* failed, Py_ssize_t* given) {
  constexpr size_t kInputs = 64;
  PyObject* few[kInputs];
  std::vector<PyObject*> many;
  const size_t count = segment_->graph_inputs.size();
  PyObject** inputs = few;
  if (count > kInputs) {
    many.resize(count);
    inputs = many.data();
  }
  for (size_t i = 0; i < count; ++i) inputs[i] = registers_[segment_->graph_inputs[i]];
  if (!segment_->classed.empty()) [[unlikely]]
    return call_on_plain(inputs, count, failed, given);
  return call_on(inputs, count, failed, given);
}

/// Hands the graph plain tensors in place of instances of tensor subclasses.
[[gnu::cold]] bool SegmentRun::call_on_plain(PyObject** inputs, size_t count, size_t* failed, Py_ssize_t* given) {
  std::vector<Owned<>> held;
  for (int index : segment_->classed) {
    held.push_back(aten::plain_of(inputs[index]));
    if (!held.back()) return false;
    inputs[index] = held.back().get();
  }
  return call_on(inputs, count, failed, given);
}

bool SegmentRun::take_outputs(PyObject* outputs, Py_ssize_t* given) {
  auto items = Owned<>::steal(PySequence_Fast(outputs, "a compiled graph gives a tuple or list"));
  if (!items) {
    *given = -1;
    PyErr_Clear();
    return false;
  }
  *given = PySequence_Fast_GET_SIZE(items.get());
  if (*given != segment_->graph_outputs) return false;
  for (int i = 0; i < segment_->graph_outputs; ++i)
    registers_[owned_++] = Py_NewRef(PySequence_Fast_GET_ITEM(items.get(), i));
  return true;
}

[[gnu::hot]] void SegmentRun::set_up_replay() {
  const plan::Replay& replay = segment_->replay;
  const int count = std::max(replay.registers, owned_);
  std::fill(registers_ + owned_, registers_ + count, nullptr);
  for (size_t i = 0; i < replay.constants.size(); ++i)
    registers_[replay.constant_base + static_cast<int>(i)] = replay.constants[i].get();
  owned_ = count;
}

[[gnu::hot]] bool SegmentRun::replay() {
  set_up_replay();
  return segment_->replay.ops.empty() || segment_->replay.run(registers_);
}

[[gnu::cold]] int SegmentRun::raise(PyFunctionObject* root) {
  if (segment_->lasting && !failure_->at_once) replay_until(failure_->node);
  return raise_at_node(segment_->lasting.get(), *failure_, root);
}

/// Replays the effects from before a node that raised. There are no graph outputs, and these effects need none.
void SegmentRun::replay_until(size_t node) {
  size_t operations = 0;
  if (node == Failure::kUnknown) return;
  for (const auto& happened : segment_->lasting->happened)
    if (happened.node <= node) operations = happened.operations;
  set_up_replay();
  if (!segment_->replay.run(registers_, operations)) PyErr_Clear();
}

/// Drops all registers but the constants, which the segment owns.
[[gnu::hot]] void SegmentRun::release() {
  if (!owned_) return;
  const int constants = segment_->replay.constant_base;
  const int made = constants + static_cast<int>(segment_->replay.constants.size());
  while (owned_ > 0) {
    PyObject* item = registers_[--owned_];
    if (owned_ < constants || owned_ >= made) Py_XDECREF(item);  // counts by hand: as above
  }
}

}  // namespace gramme::runtime
