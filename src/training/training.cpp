// Decides for each call between the flat tape under autograd and the forward tape, and learns from backwards which
// tensors the forward must keep.
#include "training/training.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "aten/state.h"
#include "base/error.h"
#include "base/gil.h"
#include "base/shared.h"
#include "base/signals.h"
#include "meta/traits.h"
#include "passes/assemble.h"
#include "tape/invoke.h"
#include "tape/memory.h"
#include "tape/registers.h"
#include "training/backward_node.h"
#include "training/leaves.h"
#include "training/random_state.h"

namespace gramme::native {
namespace {

using torch::autograd::Edge;

/// Backward tapes per piece, for different gradients or wanted inputs.
constexpr size_t kTapes = 8;

bool draws(const Tape& tape) {
  return std::ranges::any_of(tape.instructions, [](const Instruction& instruction) {
    return instruction.call && instruction.call->op.hasTag(at::Tag::nondeterministic_seeded);
  });
}

/// True if the forward may run on any data of the same form. Not with as_strided, which reads past its input.
bool needs_no_data(const Tape& tape) {
  return std::ranges::none_of(tape.instructions, [](const Instruction& instruction) {
    if (!instruction.call) return false;
    const c10::OperatorName& name = instruction.call->op.operator_name();
    return meta::may_raise(name) || name.name.starts_with("aten::as_strided");
  });
}

/// Recording a backward holds all gradients of the pass until its end. If they are added to existing ones, that is
/// memory which eager does not need, so recording waits for a call without existing gradients, up to a limit.
constexpr size_t kMuch = 16 << 20;
constexpr uint64_t kLongest = 64;

bool adds_to_much(const std::vector<at::Tensor>& inputs) {
  size_t bytes = 0;
  for (const at::Tensor& input : inputs)
    if (input.requires_grad() && input.is_leaf())
      if (const at::Tensor& gradient = input.unsafeGetTensorImpl()->grad();
          gradient.defined() && gradient.has_storage())
        bytes += static_cast<size_t>(gradient.storage().sym_nbytes().maybe_as_int().value_or(0));
  return bytes > kMuch;
}

}  // namespace

std::shared_ptr<Training> Training::make(std::unique_ptr<const Tape> flat, Settings settings) {
  return with_gil(new Training(std::move(flat), settings));
}

Training::Training(std::unique_ptr<const Tape> flat, Settings settings)
    : flat_(std::move(flat)),
      settings_(settings),
      draws_(native::draws(*flat_)),
      needs_no_data_(native::needs_no_data(*flat_)),
      written_(flat_->inputs.size(), Written::No) {
  auto note = [this](Register r, Written how) {
    if (r < static_cast<Register>(written_.size())) written_[static_cast<size_t>(r)] = how;
  };
  for (const Instruction& instruction : flat_->instructions) {
    if (!instruction.call) continue;
    each_hidden_write(*instruction.call, [&](Register r) { note(r, Written::Hidden); });
    each_declared_write(*instruction.call, [&](Register r) { note(r, Written::Counted); });
  }
  if (recomputes() && std::ranges::any_of(written_, [](Written how) { return how != Written::No; }))
    stop("running it again would write again");
}

// ---- calls

/// True if a recorded backward is permissible now: neither nodes nor what they save can be observed.
bool Training::is_started() const {
  return !stopped_ && aten::autograd_and_autocast_alone() && autocast_ == AutocastState::read() &&
         aten::can_capture() && !aten::saved_tensors_hooked() && !torch::autograd::AnomalyMode::is_enabled() &&
         unwatched() && *flat_->settings == KernelSettings::read();
}

std::optional<Training::Way> Training::way(std::vector<at::Tensor>& inputs) {
  if (!is_started()) return std::nullopt;
  Way way;
  way.plan = plan();
  if (!way.plan) {
    if (waited_ < kLongest && adds_to_much(inputs)) {
      ++waited_;
      return std::nullopt;
    }
    // Calls whose backward has not come yet accumulate, so fewer and fewer new ones are tried.
    if (!std::has_single_bit(++starts_)) return std::nullopt;
  }
  const GilReleased released;  // finding edges locks the tensor
  if (!add_casts(flat_->casts, inputs)) return std::nullopt;
  way.edges.reserve(inputs.size());
  bool differentiable = false;
  for (const at::Tensor& input : inputs) {
    if (!input.requires_grad()) {
      way.edges.emplace_back();
      continue;
    }
    differentiable = true;
    way.edges.push_back(torch::autograd::impl::gradient_edge(input));
    const Listener listener = listener_at(way.edges.back());
    if (listener == Listener::Program) return std::nullopt;
    way.heard |= listener == Listener::Reducer;
  }
  if (!may_be_heard(way)) return std::nullopt;
  if (!differentiable) return std::nullopt;
  return way;
}

const Tape* Training::run(const Way& way, const std::vector<at::Tensor>& inputs, std::span<const size_t> arguments,
                          std::vector<at::Tensor>& own, size_t* step) {
  const MemoryScope memory(Served::Medium, caches_memory());
  if (!way.plan && caches_memory()) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!memory_) memory_.emplace();
  }
  auto call = std::make_shared<ForwardCall>();
  call->training = shared_from_this();
  call->plan = way.plan;
  call->heard = way.heard;
  call->before = copies_of_written(inputs);
  if (draws_) call->random = random_state();
  const Tape& tape = way.plan ? *forward(*way.plan).tape : *flat_;
  own.resize(static_cast<size_t>(tape.registers));
  std::vector<at::Tensor> outputs;
  const c10::AutoGradMode restored(true);                                          // restored in any case
  const c10::impl::ExcludeDispatchKeyGuard casted(c10::autocast_dispatch_keyset);  // the tape has the casts
  size_t at = 0;
  try {
    way.plan ? run_tape(*call, inputs, outputs, own, &at) : run_eagerly(*call, way, inputs, outputs, own, &at);
  } catch (...) {
    if (at < tape.instructions.size()) *step = tape.instructions[at].step;
    throw;
  }
  for (size_t i = 0; i < inputs.size(); ++i) own[static_cast<size_t>(tape.inputs[i].index)] = inputs[i];
  if (outputs.empty() && recomputes()) {
    if (draws_) set_random_state(call->random);
    return nullptr;
  }
  if (outputs.empty()) return &tape;  // as autograd left them
  restore_versions(outputs);
  call->note(inputs, outputs, arguments);
  hang(call, way.edges, outputs);
  return &tape;
}

std::vector<at::Tensor> Training::copies_of_written(const std::vector<at::Tensor>& inputs) const {
  std::vector<at::Tensor> copies;
  const at::AutoDispatchBelowADInplaceOrView below;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (written_[i] != Written::No) copies.push_back(inputs[i].clone());
  return copies;
}

/// Also fills `outputs` if their nodes are to be gramme's.
void Training::run_eagerly(ForwardCall& call, const Way& way, const std::vector<at::Tensor>& inputs,
                           std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& own, size_t* at) {
  auto graph = std::make_unique<EagerGraph>(*flat_, inputs, at);
  each_register(flat_->output[0], [&](Register r) { own[static_cast<size_t>(r)] = graph->output(r); });
  if (graph->has_equal_inputs()) return;  // the next call's inputs may differ
  if (!graph->fits()) return stop(graph->why_not());
  for (size_t i = 0; i < written_.size(); ++i)
    if (written_[i] != Written::No && inputs[i].requires_grad())
      return stop("an input that is written needs gradients");
  if (!learn(*graph)) return stop("a formula saved what is written afterwards");
  if (!may_be_heard(way)) return graph->rejoin(way.edges);
  for (Register r : layout_->outputs) {
    own[static_cast<size_t>(r)] = own[static_cast<size_t>(r)].tensor_data();
    outputs.push_back(own[static_cast<size_t>(r)]);
  }
  for (size_t i = outputs.size(); i < shown_.size(); ++i) {
    at::Tensor& output = own[static_cast<size_t>(shown_[i])];
    // A formula may have saved it at its present version.
    if (versions_[i] != output._version()) output = output.tensor_data();
    outputs.push_back(output);
  }
  if (!recomputes()) call.graph = std::move(graph);
}

/// Sets eager's versions on tensors whose in-place writes the tape replaced.
void Training::restore_versions(const std::vector<at::Tensor>& outputs) const {
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i]._version() != versions_[i])
      outputs[i].unsafeGetTensorImpl()->set_version_counter(c10::VariableVersion(versions_[i]));
}

namespace {

void place_inputs(const Tape& tape, const std::vector<at::Tensor>& inputs, Frame& frame) {
  for (size_t i = 0; i < inputs.size(); ++i) frame.own[static_cast<size_t>(tape.inputs[i].index)] = inputs[i];
}

void give_back(std::unique_ptr<Frame> frame, const ForwardTape& forward) {
  for (at::Tensor& tensor : frame->own) tensor.reset();
  forward.frames.give_back(std::move(frame));
}

}  // namespace

std::vector<at::Tensor> Training::kept_of(const ForwardPlan& plan, const std::vector<at::Tensor>& inputs) const {
  const Tape& tape = *plan.keeping.tape;
  std::unique_ptr<Frame> frame = plan.keeping.frames.take(tape);
  place_inputs(tape, inputs, *frame);
  Run run = frame->run();
  run.below_autograd = true;
  size_t at = 0;
  {
    const BelowAutograd below(tape);
    tape.run(run, &at);
  }
  std::vector<at::Tensor> kept;
  kept.reserve(tape.kept.size());
  for (Register r : tape.kept) kept.push_back(run.own[r]);
  give_back(std::move(frame), plan.keeping);
  return kept;
}

void Training::run_tape(ForwardCall& call, const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& outputs,
                        std::vector<at::Tensor>& own, size_t* at) {
  const ForwardPlan& plan = *call.plan;
  const ForwardTape& forward = this->forward(plan);
  const Tape& tape = *forward.tape;
  ++replayed_;
  std::unique_ptr<Frame> frame = forward.frames.take(tape);
  place_inputs(tape, inputs, *frame);
  Run run = frame->run();
  run.below_autograd = run.looks = true;
  auto run_on = [&](size_t first) {
    // Grad mode stays on, as when autograd's kernels call operators: some read it.
    const BelowAutograd below(tape);
    return tape.run(run, at, first, tape.instructions.size());  // on an exception the frame is dropped
  };
  for (size_t next = run_on(0); next < tape.instructions.size(); next = run_on(next)) {
    const GilHeld gil;
    look_for_signals();
  }
  for (Register r : forward.outputs) {
    at::Tensor& output = run.own[r];
    if (output.is_view()) output = output.tensor_data();
    outputs.push_back(output);
  }
  call.kept.reserve(plan.kept.size());
  for (Register r : tape.kept) call.kept.push_back(run.own[r]);
  // A node must not own a tensor that owns the node.
  const auto no_nodes = forward.outputs.begin() + static_cast<std::ptrdiff_t>(layout_->outputs.size());
  for (size_t i = 0; i < tape.kept.size(); ++i)
    if (std::find(forward.outputs.begin(), no_nodes, tape.kept[i]) != no_nodes)
      call.kept[i] = call.kept[i].tensor_data();
  each_register(tape.output[0], [&](Register r) { own[static_cast<size_t>(r)] = run.own[r]; });
  give_back(std::move(frame), forward);
}

// ---- learning

/// Learns the layout common to all calls. False if their backward raises.
bool Training::learn(EagerGraph& graph) {
  std::unique_lock<std::mutex> lock(mutex_);
  std::vector<Saver> savers;
  if (!layout_) {
    lock.unlock();  // destruction may need the GIL
    try {
      savers = graph.savers();
    } catch (const c10::Error&) {
      return false;
    }
    lock.lock();
  }
  if (layout_) {
    if (!layout_->matches(graph.layout())) GRAMME_BUG("a call of a tape has another graph than the first");
    return true;
  }
  savers_ = std::move(savers);
  layout_ = std::make_shared<const Layout>(graph.layout());
  recorder_ = graph.recorder()->snapshot();
  registers_ = graph.registers();
  tapes_.resize(layout_->pieces.size());
  std::unordered_map<const c10::StorageImpl*, int32_t> owners;
  auto storage = [&](Register r) {
    const Register seen = registers_[static_cast<size_t>(r)];
    return seen == kNone ? nullptr : recorder_->seen(seen).storage;
  };
  const auto inputs = static_cast<int32_t>(flat_->inputs.size());
  for (int32_t i = 0; i < inputs; ++i) owners.emplace(storage(flat_->inputs[static_cast<size_t>(i)].index), i);
  shown_ = layout_->outputs;
  each_register(flat_->output[0], [&](Register r) {
    if (r >= inputs && std::ranges::find(shown_, r) == shown_.end()) shown_.push_back(r);
  });
  for (Register r : shown_) versions_.push_back(graph.version(r));
  for (size_t i = 0; i < shown_.size(); ++i) owners.emplace(storage(shown_[i]), inputs + static_cast<int32_t>(i));
  owners.erase(nullptr);
  std::vector<int> uses(flat_->inputs.size());
  for (const Piece& piece : layout_->pieces)
    for (const Use& use : piece.uses)
      if (use.input >= 0) ++uses[static_cast<size_t>(use.input)];
  for (int count : uses) used_once_.push_back(count == 1);
  for (Register r = 0; r < flat_->registers; ++r) {
    const auto found = owners.find(storage(r));
    owners_.push_back(found == owners.end() ? -1 : found->second);
  }
  // Inputs that share memory have separate version counters; a view shares its base's.
  for (int32_t i = 0; i < inputs; ++i)
    if (owners_[static_cast<size_t>(i)] >= 0) owners_[static_cast<size_t>(i)] = i;
  for (const Instruction& instruction : flat_->instructions)
    each_write(instruction, [&](Register made) {
      each_read(instruction, [&](Register of) {
        if (made != of && owners_[static_cast<size_t>(made)] >= 0 && storage(made) == storage(of))
          owners_[static_cast<size_t>(made)] = owners_[static_cast<size_t>(of)];
      });
    });
  input_savers_.resize(flat_->inputs.size());
  data_savers_.resize(flat_->inputs.size());
  for (size_t saver = 0; saver < savers_.size(); ++saver)
    for (Register r : savers_[saver].saved) {
      if (r < inputs) input_savers_[static_cast<size_t>(r)].push_back(saver);
      if (const int32_t from = owner(r); from >= 0 && from < inputs)
        data_savers_[static_cast<size_t>(from)].push_back(saver);
    }
  for (const Piece& piece : layout_->pieces) once_.emplace_back(piece.uses.size());
  for (const Saver& saver : savers_)
    for (size_t use = 0; use < saver.leads.size(); ++use)
      if (saver.leads[use]) once_[saver.piece][use] = true;
  return true;
}

std::shared_ptr<const BackwardTape> Training::find(size_t piece, const BackwardKey& key) const {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& tape : tapes_[piece])
    if (tape->key() == key) return tape;
  return nullptr;
}

void Training::add(size_t piece, std::shared_ptr<const BackwardTape> tape) {
  std::shared_ptr<const ForwardPlan> before;  // destroyed after the lock is released, since that takes the GIL
  std::lock_guard<std::mutex> lock(mutex_);
  if (tapes_[piece].size() >= kTapes) {
    stopped_ = true;
    why_stopped_ = "there are many kinds of backward";
    return;
  }
  for (const BackwardSource& source : tape->sources()) {
    if (source.kind != BackwardSource::Kept) continue;
    const int32_t owner = owners_[static_cast<size_t>(source.index)];
    if (owner < 0 || static_cast<size_t>(owner) >= written_.size()) continue;
    if (written_[static_cast<size_t>(owner)] != Written::Counted) continue;
    stopped_ = true;  // it may have read former data
    why_stopped_ = "the backward reads an input that the forward writes";
    return;
  }
  tapes_[piece].push_back(std::move(tape));
  std::swap(before, plan_);
}

void Training::stop(std::string why) {
  std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
  why_stopped_ = std::move(why);
}

void Training::stop_for_second_derivatives() {
  stop("a graph of the backward was wanted");
  for (const auto& flag : flags_) *flag = true;
}

std::shared_ptr<const ForwardPlan> Training::plan() {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool known = std::ranges::any_of(tapes_, [](const auto& tapes) { return !tapes.empty(); });
  if (!plan_ && known) plan_ = make_plan();
  return plan_;
}

std::shared_ptr<const ForwardPlan> Training::make_plan() const {
  auto plan = std::make_unique<ForwardPlan>();
  plan->index.resize(static_cast<size_t>(flat_->registers), -1);
  auto keep = [&](Register r) {  // registers it as kept; inputs are not
    int32_t& index = plan->index[static_cast<size_t>(r)];
    if (index < 0 && r >= static_cast<Register>(flat_->inputs.size())) {
      index = static_cast<int32_t>(plan->kept.size());
      plan->kept.push_back(r);
      plan->readers.emplace_back();
    }
    return index;
  };
  for (size_t saver = 0; saver < savers_.size(); ++saver)
    for (Register r : savers_[saver].saved)
      if (const int32_t index = keep(r); index >= 0) plan->readers[static_cast<size_t>(index)].push_back(saver);
  for (const auto& tapes : tapes_)
    for (const auto& tape : tapes)
      for (const BackwardSource& source : tape->sources())
        if (source.kind == BackwardSource::Kept) keep(source.index);
  make_forward(plan->keeping, plan->kept);
  if (recomputes()) make_forward(plan->bare, {});
  return with_gil<const ForwardPlan>(plan.release());
}

/// Makes a tape that leaves these registers of the flat tape.
void Training::make_forward(ForwardTape& made, const std::vector<Register>& kept) const {
  auto seen = [this](Register& r) { r = registers_[static_cast<size_t>(r)]; };
  std::vector<Instruction> instructions;
  for (const Instruction& from : flat_->instructions) {
    if (from.kind == Instruction::Mode) continue;  // autograd is off for the whole tape
    Instruction& instruction = instructions.emplace_back();
    instruction.step = from.step;
    instruction.call = std::make_unique<OperatorCall>(*from.call);
    rename_registers(instruction, seen);
  }
  Assembly assembly{flat_->program, std::move(instructions), flat_->inputs, flat_->output[0], *recorder_, 0, 0, true};
  for (Place& input : assembly.inputs) rename_registers(input, seen);
  rename_registers(assembly.output, seen);
  assembly.counts_inside = false;
  assembly.kept = kept;
  rename_registers(assembly.kept, seen);
  made.tape = native::assemble(std::move(assembly));
  std::vector<Register> from, to;
  each_register(flat_->output[0], [&](Register r) { from.push_back(r); });
  each_register(made.tape->output[0], [&](Register r) { to.push_back(r); });
  for (Register r : shown_) made.outputs.push_back(to[static_cast<size_t>(std::ranges::find(from, r) - from.begin())]);
}

std::string Training::print() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::string text = "flat: " + flat_->print();
  if (stopped_) text += "stopped: " + why_stopped_ + "\n";
  if (plan_) text += "forward: " + forward(*plan_).tape->print();
  if (plan_ && recomputes()) text += "forward again: " + plan_->keeping.tape->print();
  for (size_t piece = 0; piece < tapes_.size(); ++piece)
    for (const auto& tape : tapes_[piece])
      text += "backward of piece " + std::to_string(piece) + ": " + tape->tape().print();
  return text;
}

}  // namespace gramme::native
