// Checkpointing with two autograd nodes: RecomputeBackward runs the body again with a graph, CheckpointBackward runs
// the backward of that graph. Random numbers and autocast are as in the first run.
#include "pipeline/checkpoint.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <mutex>

namespace gramme::pipeline {
namespace {

using torch::autograd::Engine;
using torch::autograd::SavedVariable;

/// Sets a flag in a scope.
class Flag {
 public:
  Flag(bool& flag, bool value) : flag_(flag), before_(std::exchange(flag, value)) {}
  ~Flag() { flag_ = before_; }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;

 private:
  bool& flag_;
  const bool before_;
};

/// The states of the default generators of the CPU and, if it is not the CPU, of the device.
class RandomStates {
 public:
  explicit RandomStates(c10::Device device) {
    generators_.push_back(at::globalContext().defaultGenerator(c10::kCPU));
    if (!device.is_cpu()) generators_.push_back(at::globalContext().defaultGenerator(device));
    for (at::Generator& generator : generators_) {
      std::lock_guard<std::mutex> lock(generator.mutex());
      states_.push_back(generator.get_state());
    }
  }
  void restore() const {
    for (size_t i = 0; i < generators_.size(); ++i) {
      at::Generator generator = generators_[i];
      std::lock_guard<std::mutex> lock(generator.mutex());
      generator.set_state(states_[i]);
    }
  }

 private:
  std::vector<at::Generator> generators_;
  std::vector<at::Tensor> states_;
};

/// In the scope, random numbers continue from the given states; afterwards from where they were before.
class Replayed {
 public:
  Replayed(const RandomStates& states, c10::Device device) : before_(device) { states.restore(); }
  ~Replayed() { before_.restore(); }
  Replayed(const Replayed&) = delete;
  Replayed& operator=(const Replayed&) = delete;

 private:
  RandomStates before_;
};

/// Autocast's settings for the CPU and the device, without its cache: a cast cached in a run without a graph has no
/// gradient, and one cached in backward would outlive the step.
class Autocast {
 public:
  explicit Autocast(c10::Device device) : types_{c10::kCPU, device.type()} {
    for (size_t i = 0; i < types_.size(); ++i) {
      enabled_[i] = at::autocast::is_autocast_enabled(types_[i]);
      dtypes_[i] = at::autocast::get_autocast_dtype(types_[i]);
    }
  }
  void set() const {
    for (size_t i = 0; i < types_.size(); ++i) {
      at::autocast::set_autocast_enabled(types_[i], enabled_[i]);
      at::autocast::set_autocast_dtype(types_[i], dtypes_[i]);
    }
  }

 private:
  std::array<c10::DeviceType, 2> types_;
  std::array<bool, 2> enabled_;
  std::array<at::ScalarType, 2> dtypes_;
};

class Casting {
 public:
  Casting(const Autocast& state, c10::Device device)
      : before_(device), cached_(at::autocast::is_autocast_cache_enabled()) {
    state.set();
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~Casting() {
    before_.set();
    at::autocast::set_autocast_cache_enabled(cached_);
  }
  Casting(const Casting&) = delete;
  Casting& operator=(const Casting&) = delete;

 private:
  Autocast before_;
  bool cached_;
};

c10::Device device_of(const variable_list& tensors) {
  for (const at::Tensor& tensor : tensors)
    if (!tensor.is_cpu()) return tensor.device();
  return c10::Device(c10::kCPU);
}

/// -1 for an inference tensor, which has no version counter.
int64_t version_of(const at::Tensor& tensor) { return tensor.is_inference() ? -1 : int64_t{tensor._version()}; }

struct Input {
  SavedVariable saved;
  bool requires_grad;
  bool was_written;  // by the first run
};

struct Recomputed {
  variable_list outputs, leaves;
};

}  // namespace

struct Checkpoint {
  Checkpoint(Body body, c10::Device device) : body(std::move(body)), device(device), random(device), casts(device) {}

  Body body;
  c10::Device device;
  RandomStates random;
  Autocast casts;
  std::vector<Input> inputs;
  std::optional<Recomputed> recomputed;
};

Runs& runs() {
  thread_local Runs runs;
  return runs;
}

namespace {

variable_list run_without_graph(const Checkpoint& checkpoint, const variable_list& inputs) {
  at::AutoGradMode no_grad(false);
  const Flag first(runs().checkpointing, true);
  const Casting casts(checkpoint.casts, checkpoint.device);
  return checkpoint.body(inputs);
}

std::vector<int64_t> versions_of(const variable_list& tensors) {
  std::vector<int64_t> versions;
  for (const at::Tensor& tensor : tensors) versions.push_back(version_of(tensor));
  return versions;
}

/// The inputs of the second run. Raises if the first run wrote one: the write would be made twice.
variable_list leaves_of(const Checkpoint& checkpoint) {
  variable_list leaves;
  for (const Input& input : checkpoint.inputs) {
    TORCH_CHECK(!input.was_written || !input.requires_grad,
                "a leaf Variable that requires grad is being used in an in-place operation: a checkpointed stage "
                "changed its input, which it needs once more to be recomputed");
    TORCH_CHECK(!input.was_written,
                "a checkpointed stage changed its input in place, which it needs once more to be recomputed; clone it "
                "first or use checkpoint='never'");
    leaves.push_back(input.saved.unpack().detach().set_requires_grad(input.requires_grad));
  }
  return leaves;
}

}  // namespace

Checkpointed checkpoint(Body body, const variable_list& inputs) {
  auto checkpoint = std::make_shared<Checkpoint>(std::move(body), device_of(inputs));
  const std::vector<int64_t> versions = versions_of(inputs);
  variable_list outputs = run_without_graph(*checkpoint, inputs);
  if (!c10::GradMode::is_enabled()) return {nullptr, std::move(outputs)};
  for (size_t i = 0; i < inputs.size(); ++i)
    checkpoint->inputs.push_back(
        {SavedVariable(inputs[i], false), inputs[i].requires_grad(), version_of(inputs[i]) != versions[i]});
  auto node = c10::make_intrusive<CheckpointBackward>(checkpoint);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  for (at::Tensor& output : outputs) {
    output = without_history(output);
    torch::autograd::set_history(is_differentiable(output) ? output : at::Tensor(), node);
  }
  return {std::move(checkpoint), std::move(outputs)};
}

at::Tensor recompute(const std::shared_ptr<Checkpoint>& checkpoint, const at::Tensor& phony) {
  if (!records(phony)) return phony;
  auto node = c10::make_intrusive<RecomputeBackward>(checkpoint);
  node->set_next_edges(torch::autograd::collect_next_edges(phony));
  at::Tensor result = without_history(phony);
  torch::autograd::set_history(result, node);
  return result;
}

variable_list RecomputeBackward::apply(variable_list&&) {
  TORCH_CHECK(checkpoint_->body, "Trying to backward through a checkpointed stage a second time: its input was freed");
  variable_list leaves = leaves_of(*checkpoint_);
  at::AutoGradMode grad(true);
  const Flag second(runs().recomputing, true);
  const Casting casts(checkpoint_->casts, checkpoint_->device);
  const Replayed random(checkpoint_->random, checkpoint_->device);
  variable_list outputs = checkpoint_->body(leaves);
  checkpoint_->recomputed = Recomputed{std::move(outputs), std::move(leaves)};
  return {at::Tensor()};
}

namespace {

/// The root of a backward that passes each tensor its gradient. The engine accepts no root without a gradient, so
/// tensors that require none are left out.
class Seeds final : public torch::autograd::Node {
 public:
  Seeds(const variable_list& tensors, const variable_list& gradients) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].requires_grad()) continue;
      add_next_edge(torch::autograd::impl::gradient_edge(tensors[i]));
      gradients_.push_back(gradients[i]);
    }
  }
  variable_list apply(variable_list&&) override { return std::move(gradients_); }

 private:
  variable_list gradients_;
};

void backward(const variable_list& tensors, const variable_list& gradients) {
  auto seeds = c10::make_intrusive<Seeds>(tensors, gradients);
  if (seeds->num_outputs() == 0) return;
  const at::Tensor start = phony(c10::Device(c10::kCPU), false);
  seeds->add_input_metadata(start);
  Engine::get_default_engine().execute({{seeds, 0}}, {start}, false, false, true);
}

}  // namespace

/// All outputs are roots, including those without a gradient: the lanes of skip connections end in them.
variable_list CheckpointBackward::apply(variable_list&& gradients) {
  TORCH_CHECK(!c10::GradMode::is_enabled(), "a checkpointed stage has no second derivative");
  TORCH_CHECK(Engine::get_default_engine().is_checkpoint_valid(),
              "checkpointed stages need .backward() without inputs=: torch.autograd.grad would not reach their "
              "parameters");
  TORCH_CHECK(checkpoint_->recomputed, "a checkpointed stage was not recomputed before its backward");
  const Recomputed recomputed = *std::exchange(checkpoint_->recomputed, std::nullopt);
  backward(recomputed.outputs, gradients);
  variable_list found;
  for (const at::Tensor& leaf : recomputed.leaves) found.push_back(leaf.grad());
  return found;
}

void CheckpointBackward::release_variables() {
  checkpoint_->body = nullptr;
  checkpoint_->inputs.clear();
}

}  // namespace gramme::pipeline
