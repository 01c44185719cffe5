// Scope for running a forward inside a backward.
#pragma once
#include <ATen/SavedTensorHooks.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/anomaly_mode.h>

namespace gramme::native {

/// Scope in which the thread's modes are those of a plain forward.
class PlainForward {
 public:
  PlainForward()
      : keys_(c10::default_included_set, c10::default_excluded_set),
        modes_(c10::impl::TorchDispatchModeTLS::get_state()),
        hooks_(at::SavedTensorDefaultHooks::get_tls_state()),
        anomaly_(torch::autograd::AnomalyMode::is_enabled()),
        checks_nan_(torch::autograd::AnomalyMode::should_check_nan()) {
    c10::impl::TorchDispatchModeTLS::set_state({});
    at::SavedTensorDefaultHooks::set_tls_state({});
    torch::autograd::AnomalyMode::set_enabled(false, checks_nan_);
  }
  ~PlainForward() {
    torch::autograd::AnomalyMode::set_enabled(anomaly_, checks_nan_);
    at::SavedTensorDefaultHooks::set_tls_state(hooks_);
    c10::impl::TorchDispatchModeTLS::set_state(modes_);
  }
  PlainForward(const PlainForward&) = delete;

 private:
  c10::impl::ForceDispatchKeyGuard keys_;
  c10::AutoGradMode on_{true};
  const c10::impl::TorchDispatchModeTLS modes_;
  const at::impl::SavedTensorDefaultHooksTLS hooks_;
  const bool anomaly_, checks_nan_;
};

}  // namespace gramme::native
