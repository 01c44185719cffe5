// The sorted names of known nodes, from the generated table and a few libraries.
#include "record/nodes.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <typeinfo>

#include "base/process.h"
#include "tape/composites.h"

namespace gramme::native {
namespace {

constexpr std::string_view kKnown[] = {
// sorted
#define NODE(name) name,
#include "torch_nodes.def"
#undef NODE
};

struct State {
  bool trusts_generated = false;  // GIL, a word: set by tests
};
OfProcess<State> state;

bool is_generated(const torch::autograd::Node& node) {
  return std::strstr(typeid(node).name(), "5torch8autograd9generated") != nullptr;
}

}  // namespace

bool is_known_node(const torch::autograd::Node& node) {
  if (!is_generated(node)) return is_node_of_library(node.name());
  const std::string name = node.name();
  return state->trusts_generated || std::ranges::binary_search(kKnown, std::string_view(name));
}

void trust_generated_nodes(bool on) { state->trusts_generated = on; }

}  // namespace gramme::native
