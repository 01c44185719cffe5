// The default generator's state: read, set, and set for a scope.
#pragma once
#include <ATen/core/Tensor.h>

namespace gramme::native {

at::Tensor random_state();
void set_random_state(const at::Tensor& state);

/// Scope in which the default generator has the given state; undefined: its own.
class FromState {
 public:
  explicit FromState(const at::Tensor& state) {
    if (!state.defined()) return;
    before_ = random_state();
    set_random_state(state);
  }
  ~FromState() {
    if (before_.defined()) set_random_state(before_);
  }
  FromState(const FromState&) = delete;

 private:
  at::Tensor before_;
};

}  // namespace gramme::native
