// Asks autocast for its casts.
#include "native/casts.h"

#include <ATen/autocast_mode.h>

namespace gramme::native {
namespace {

/// True inside of an autocast of the program, whose cache then holds casts until it ends.
bool is_nested() {
  const int depth = at::autocast::increment_nesting();
  at::autocast::decrement_nesting();
  return depth > 1;
}

}  // namespace

bool is_cached_by_autocast(const at::Tensor& tensor) {
  return tensor.scalar_type() == c10::kFloat && tensor.requires_grad() && tensor.is_leaf() && !tensor.is_view() &&
         tensor.is_cpu();
}

at::Tensor cast_input(const at::Tensor& input, c10::ScalarType dtype) {
  return is_nested() ? at::autocast::cached_cast(dtype, input, c10::kCPU) : input.to(dtype);
}

AutocastState AutocastState::read() {
  return {at::autocast::is_autocast_enabled(c10::kCPU), at::autocast::is_autocast_cache_enabled(),
          at::autocast::get_autocast_dtype(c10::kCPU)};
}

}  // namespace gramme::native
