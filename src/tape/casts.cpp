// Asks autocast for its casts.
#include "tape/casts.h"

#include <ATen/autocast_mode.h>

namespace gramme::native {
namespace {

/// True inside of an autocast of the program, whose cache then holds casts until it ends.
bool is_nested() {
  const int depth = at::autocast::increment_nesting();
  at::autocast::decrement_nesting();
  return depth > 1;
}

/// Scope in which autocast keeps casts of a dtype that is set. A tape may hold regions of other dtypes.
class Caching {
 public:
  Caching() { at::autocast::set_autocast_cache_enabled(true); }
  ~Caching() {
    at::autocast::set_autocast_dtype(c10::kCPU, before_.dtype);
    at::autocast::set_autocast_cache_enabled(before_.cached);
  }
  Caching(const Caching&) = delete;

 private:
  const AutocastState before_ = AutocastState::read();
};

}  // namespace

bool is_cached_by_autocast(const at::Tensor& tensor) {
  return tensor.scalar_type() == c10::kFloat && tensor.requires_grad() && tensor.is_leaf() && !tensor.is_view() &&
         tensor.is_cpu();
}

bool add_casts(const std::vector<CastInput>& casts, std::vector<at::Tensor>& inputs) {
  if (casts.empty()) return true;
  const bool nested = is_nested();
  const Caching restored;
  for (const auto& [input, dtype] : casts) {
    at::autocast::set_autocast_dtype(c10::kCPU, dtype);
    inputs.push_back(nested ? at::autocast::cached_cast(dtype, inputs[input], c10::kCPU) : inputs[input].to(dtype));
    if (inputs.back().scalar_type() != dtype) return false;
  }
  return true;
}

AutocastState AutocastState::read() {
  return {at::autocast::is_autocast_enabled(c10::kCPU), at::autocast::is_autocast_cache_enabled(),
          at::autocast::get_autocast_dtype(c10::kCPU)};
}

}  // namespace gramme::native
