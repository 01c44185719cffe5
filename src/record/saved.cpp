// Asks nodes through compiled autograd's interface.
#include "record/saved.h"

#include <torch/csrc/autograd/python_function.h>  // sees pybind11: THPFunction
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include "base/gil.h"
#include "tape/composites.h"

namespace gramme::native {

using namespace torch::dynamo::autograd;

/// Generated nodes report saved tensors to compiled autograd; nodes of library operators are Python objects.
std::vector<at::Tensor> saved_by(const c10::intrusive_ptr<torch::autograd::Node>& node) {
  std::vector<at::Tensor> saved;
  if (is_node_of_library(node->name())) {
    const GilHeld gil;
    const auto& python = static_cast<const torch::autograd::PyNode&>(*node);
    const auto* function = reinterpret_cast<const THPFunction*>(python.pyobj());
    for (const torch::autograd::SavedVariable& variable : function->saved_variables)
      saved.push_back(variable.unpack(node));
  } else {
    AutogradCompilerCall told(SizeInput::STATIC);
    NodeCall call(0, node);
    CompiledNodeArgs arguments(told, call);
    node->compiled_args(arguments);
    saved = std::move(told.tensor_args.inputs);
  }
  std::erase_if(saved, [](const at::Tensor& tensor) { return !tensor.defined(); });
  return saved;
}

}  // namespace gramme::native
