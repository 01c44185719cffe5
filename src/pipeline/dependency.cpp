// The autograd nodes of fork and join, which pass gradients through and only add an edge.
#include "pipeline/dependency.h"

#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace gramme::pipeline {

using torch::autograd::collect_next_edges;
using torch::autograd::set_history;

at::Tensor phony(c10::Device device, bool requires_grad) {
  struct Made {
    std::mutex mutex;
    std::map<std::pair<std::string, bool>, at::Tensor> tensors;
  };
  // Never freed: its tensors have Python objects, which must not be released after the interpreter's end.
  static Made* const made = new Made;  // no Python: an empty map
  std::lock_guard<std::mutex> lock(made->mutex);
  at::Tensor& tensor = made->tensors[{device.str(), requires_grad}];
  if (!tensor.defined()) {
    c10::InferenceMode no_inference(false);
    tensor = at::empty({0}, at::TensorOptions(at::kFloat).device(device));
    tensor.set_requires_grad(requires_grad);
  }
  return tensor;
}

at::Tensor without_history(const at::Tensor& tensor) { return tensor.detach(); }

bool is_differentiable(const at::Tensor& tensor) { return torch::autograd::isDifferentiableType(tensor.scalar_type()); }

bool records(const at::Tensor& tensor) { return c10::GradMode::is_enabled() && tensor.requires_grad(); }

bool records(const variable_list& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) { return records(tensor); });
}

variable_list outputs_of(const c10::intrusive_ptr<torch::autograd::Node>& node, const variable_list& inputs,
                         variable_list results) {
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = without_history(results[i]);
    set_history(inputs[i].requires_grad() ? results[i] : at::Tensor(), node);
  }
  return results;
}

std::pair<at::Tensor, at::Tensor> fork(const at::Tensor& lane) {
  if (!records(lane)) return {lane, without_history(phony(lane.device(), false))};
  auto node = c10::make_intrusive<ForkBackward>();
  node->set_next_edges(collect_next_edges(lane));
  std::pair<at::Tensor, at::Tensor> made{without_history(lane), without_history(phony(lane.device(), false))};
  set_history(made.first, node);
  set_history(made.second, node);
  return made;
}

at::Tensor join(const at::Tensor& lane, const at::Tensor& phony) {
  if (!is_differentiable(lane) || !(records(lane) || records(phony))) return lane;
  auto node = c10::make_intrusive<JoinBackward>();
  node->set_next_edges(collect_next_edges(lane, phony));
  at::Tensor joined = without_history(lane);
  set_history(joined, node);
  return joined;
}

variable_list ForkBackward::apply(variable_list&& gradients) { return {std::move(gradients[0])}; }

variable_list JoinBackward::apply(variable_list&& gradients) { return {std::move(gradients[0]), at::Tensor()}; }

}  // namespace gramme::pipeline
