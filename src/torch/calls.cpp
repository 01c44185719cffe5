// Look-ups by name in tables that are built from the .def files at first use.
#include "torch/calls.h"

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace gramme::of_torch {
namespace {

using Traits = std::unordered_map<std::string_view, int>;

bool has(const Traits& traits, std::string_view name, int trait) {
  auto found = traits.find(name);
  return found != traits.end() && (found->second & trait);
}

}  // namespace

bool is_call(std::string_view name, CallTrait trait) {
  // no Python: texts
  static const auto* const known = new Traits{
#define CALL(name, what) {#name, what},
#include "torch_calls.def"
#undef CALL
  };
  return has(*known, name, trait);
}

bool is_operator(std::string_view name, std::string_view overload, OperatorTrait trait) {
  // no Python: texts
  static const auto* const known = new Traits{
#define OPERATOR(name, what) {name, what},
#include "torch_operators.def"
#undef OPERATOR
  };
  if (has(*known, name, trait)) return true;
  return !overload.empty() && has(*known, std::string(name).append(".").append(overload), trait);
}

KernelKey kernel_key(std::string_view name) {
  // no Python: texts
  static const auto* const known = new std::unordered_map<std::string_view, KernelKey>{
#define KERNEL_KEY(name, kind) {#name, KernelKey::kind},
#include "torch_keys.def"
#undef KERNEL_KEY
  };
  auto found = known->find(name);
  return found == known->end() ? KernelKey::Other : found->second;
}

bool is_namespace_of_pytorch(std::string_view name) {
  // no Python: texts
  static const auto* const known = new std::unordered_set<std::string_view>{
#define NAMESPACE(name) #name,
#include "torch_keys.def"
#undef NAMESPACE
  };
  return known->contains(name);
}

}  // namespace gramme::of_torch
