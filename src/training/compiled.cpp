// Binds calls of nodes to compiled autograd's graph.
#include "training/compiled.h"

#include <atomic>
#include <optional>

#include "base/gil.h"
#include "base/process.h"

namespace gramme::native {
namespace {

using torch::autograd::edge_list;
using torch::autograd::variable_list;
using namespace torch::dynamo::autograd;

struct State {
  std::atomic<uint64_t> graphs = 0;  // atomic: of compiled autograd, each for one node
};
Lasting<State> state;

}  // namespace

void collect(CompiledNodeArgs& args) { args.collect(static_cast<size_t>(++state->graphs)); }

variable_list call_in_graph(std::function<variable_list(variable_list&&)> apply, const edge_list& next,
                            const variable_list& gradients, SwapSavedVariables& saved) {
  auto function = [apply = std::move(apply)](const variable_list& gradients, const std::vector<c10::IValue>& /*args*/) {
    std::optional<GilReleased> released;  // the engine may be called
    if (PyGILState_Check()) released.emplace();
    return apply(variable_list(gradients));
  };
  const auto& compiler = getPyCompilerInterface();
  const std::string bound =
      compiler->bind_function(saved.get_py_compiler(), "RecordedBackward", function, {}, true, false);
  const c10::IValue metadata = IValuePacker<std::vector<std::optional<InputMetadata>>>::pack(get_input_metadata(next));
  return compiler->call_function(saved.get_py_compiler(), "apply_functional", bound, gradients, {}, metadata);
}

}  // namespace gramme::native
