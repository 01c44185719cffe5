// Reads the state through pointers to libtorch's thread-locals, fetched once for each thread; the list of compared bits
// is GRAMME_STATE_BITS.
#include "aten/state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include "aten/python.h"

namespace gramme::aten {
namespace {

constexpr int kHooksBit = 6;

/// One row per bit of GlobalState::bits. BIT(position, text, value), all read through the pointers of `tls`.
#define GRAMME_STATE_BITS(BIT)                                                                   \
  BIT(0, "grad mode", tls.autograd->get_grad_mode())                                             \
  BIT(1, "inference mode", tls.autograd->get_inference_mode())                                   \
  BIT(2, "forward AD", tls.autograd->get_fw_grad_mode())                                         \
  BIT(3, "deterministic algorithms", tls.context->deterministicAlgorithms())                     \
  BIT(4, "deterministic algorithms (warn only)", tls.context->deterministicAlgorithmsWarnOnly()) \
  BIT(5, "filling of uninitialized memory", tls.context->deterministicFillUninitializedMemory()) \
  BIT(kHooksBit, "saved tensor hooks", !tls.hooks->stack.empty())                                \
  BIT(7, "saved tensor hooks disabled", tls.hooks->disabled_error_message.has_value())           \
  BIT(8, "torch.jit tracing", *tls.tracing != nullptr)                                           \
  BIT(9, "autocast cache", at::autocast::is_autocast_cache_enabled())

constexpr int kFunctionStateShift = 16;  // the state of torch functions: enabled, subclasses disabled, all disabled

/// The private members of PythonTorchFunctionTLS: a call into libtorch for each would cost more than all reads here.
struct FunctionState {
  at::impl::TorchFunctionDisabledState disabled;
  bool skip_next;
  std::vector<std::shared_ptr<c10::SafePyObject>> modes;
};
static_assert(sizeof(FunctionState) == sizeof(at::impl::PythonTorchFunctionTLS));

/// Where this thread keeps its state; the look-up of a thread-local in another library costs more than reading it.
struct Tls {
  c10::AutogradState* autograd = &c10::AutogradState::get_tls_state();
  const c10::impl::PODLocalDispatchKeySet* keys = &c10::impl::raw_local_dispatch_key_set;
  const FunctionState* functions =
      reinterpret_cast<const FunctionState*>(&at::impl::PythonTorchFunctionTLS::get_state());
  const at::impl::SavedTensorDefaultHooksTLS* hooks = &at::SavedTensorDefaultHooks::get_tls_state();
  const std::shared_ptr<torch::jit::tracer::TracingState>* tracing = &torch::jit::tracer::getTracingState();
  at::Context* context = &at::globalContext();
};

struct Thread {
  const Tls* tls = nullptr;  // a pointer needs no guard; one small leak per thread
};

[[gnu::always_inline]] inline const Tls& tls_of_thread() {
  [[gnu::tls_model("initial-exec")]] static constinit thread_local Thread thread;
  if (!thread.tls) [[unlikely]]
    thread.tls = new Tls;
  return *thread.tls;
}

const char* boolean(bool value) { return value ? "True" : "False"; }

std::string changed(const std::string& what, const std::string& from, const std::string& to) {
  return what + " changed from " + from + " to " + to;
}

/// Devices whose autocast dtype a program can meet; the default dtype is the first byte of `dtypes`.
constexpr at::DeviceType kAutocastDevices[] = {at::kCPU, at::kCUDA};

}  // namespace

[[gnu::hot]] GlobalState GlobalState::read() {
  const Tls& tls = tls_of_thread();
  GlobalState state;
  state.included = tls.keys->included_;
  state.excluded = tls.keys->excluded_;
  state.bits = static_cast<uint64_t>(tls.functions->disabled) << kFunctionStateShift;
#define BIT(position, text, value) state.bits |= static_cast<uint64_t>(value) << position;
  GRAMME_STATE_BITS(BIT)
#undef BIT
  state.dtypes = static_cast<uint8_t>(c10::get_default_dtype_as_scalartype());
  int shift = 8;
  for (at::DeviceType device : kAutocastDevices) {
    state.dtypes |= static_cast<uint64_t>(static_cast<uint8_t>(at::autocast::get_autocast_dtype(device))) << shift;
    shift += 8;
  }
  state.function_modes = static_cast<int64_t>(tls.functions->modes.size());
  return state;
}

GlobalState GlobalState::but_for_hooks() const {
  GlobalState state = *this;
  state.bits &= ~(uint64_t{1} << kHooksBit);
  return state;
}

bool GlobalState::transforms() const {
  return c10::DispatchKeySet(c10::DispatchKeySet::RAW, included).has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}

bool GlobalState::asks_classes() const { return (bits >> kFunctionStateShift) == 0; }

std::string GlobalState::explain_difference(const GlobalState& now) const {
#define BIT(position, text, value)       \
  if ((bits ^ now.bits) >> position & 1) \
    return changed(text, boolean(bits >> position & 1), boolean(now.bits >> position & 1));
  GRAMME_STATE_BITS(BIT)
#undef BIT
  if (bits != now.bits)
    return changed("state of torch functions", std::to_string(bits >> kFunctionStateShift),
                   std::to_string(now.bits >> kFunctionStateShift));
  if (function_modes != now.function_modes)
    return changed("number of torch function modes", std::to_string(function_modes),
                   std::to_string(now.function_modes));
  if (dtypes != now.dtypes) {
    auto name = [](uint64_t packed, int shift) {
      return std::string(c10::toString(static_cast<at::ScalarType>(packed >> shift & 255)));
    };
    if ((dtypes ^ now.dtypes) & 255) return changed("default dtype", name(dtypes, 0), name(now.dtypes, 0));
    int shift = (dtypes ^ now.dtypes) >> 8 & 255 ? 8 : 16;
    return changed(shift == 8 ? "autocast dtype of cpu" : "autocast dtype of cuda", name(dtypes, shift),
                   name(now.dtypes, shift));
  }
  auto set = [](uint64_t included, c10::DispatchKeySet defaults) {
    return c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, included) ^ defaults);
  };
  if (included != now.included)
    return changed("dispatch keys of the thread", set(included, c10::default_included_set),
                   set(now.included, c10::default_included_set));
  if (excluded != now.excluded)
    return changed("excluded dispatch keys of the thread", set(excluded, c10::default_excluded_set),
                   set(now.excluded, c10::default_excluded_set));
  return {};
}

bool forward_level_is_open() { return torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr; }

struct SavedModes::State {
  at::ThreadLocalState thread;
  at::ScalarType autocast[std::size(kAutocastDevices)];
  bool cache = at::autocast::is_autocast_cache_enabled();
  int nesting = at::autocast::increment_nesting() - 1;
  bool in_forward_level = forward_level_is_open();
};

SavedModes::SavedModes() = default;
SavedModes::~SavedModes() = default;

void SavedModes::save() {
  state_ = std::make_unique<State>();
  at::autocast::decrement_nesting();  // undoes the increment by which `nesting` was read
  for (size_t i = 0; i < std::size(kAutocastDevices); ++i)
    state_->autocast[i] = at::autocast::get_autocast_dtype(kAutocastDevices[i]);
}

void SavedModes::restore() {
  if (!state_) return;
  at::ThreadLocalState::setThreadLocalState(state_->thread);
  for (size_t i = 0; i < std::size(kAutocastDevices); ++i)
    at::autocast::set_autocast_dtype(kAutocastDevices[i], state_->autocast[i]);
  at::autocast::set_autocast_cache_enabled(state_->cache);
  for (int now = at::autocast::increment_nesting(); now > state_->nesting;) now = at::autocast::decrement_nesting();
  if (state_->nesting == 0) at::autocast::clear_cache();
  if (!state_->in_forward_level && forward_level_is_open()) torch::autograd::ForwardADLevel::release_idx(0);
}

[[gnu::cold]] bool RandomState::save() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  try {
    std::lock_guard<std::mutex> lock(generator.mutex());
    state_ = object_of(generator.get_state());
    return true;
  } catch (const PythonError&) {
    PyErr_Clear();
  } catch (const std::exception&) {  // c10's
  }
  return false;
}

[[gnu::cold]] void RandomState::restore() {
  if (!state_) return;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(tensor_of(state_.get()));
}

bool can_capture() {
  const GlobalState state = GlobalState::read();
  return state.function_modes == 0 && !state.transforms() && !c10::impl::TorchDispatchModeTLS::any_modes_set() &&
         !forward_level_is_open();
}

bool is_dispatched_around() { return c10::impl::TorchDispatchModeTLS::any_modes_set(true); }

bool inside_operator() {
  constexpr c10::DispatchKeySet above = c10::autograd_dispatch_keyset | c10::python_ks;
  const c10::impl::PODLocalDispatchKeySet& keys = *tls_of_thread().keys;
  return !c10::InferenceMode::is_enabled() &&
         (keys.excluded_ & ~c10::default_excluded_set.raw_repr() & above.raw_repr());
}

namespace {

bool has_plain_keys() {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  const c10::DispatchKeySet expected({c10::DispatchKey::BackendSelect, c10::DispatchKey::ADInplaceOrView});
  return (keys.included_ - expected).empty();
}

}  // namespace

bool kernels_alone() {
  return autocast_or_inference_alone() && !inference_mode() && !at::autocast::is_autocast_enabled(c10::kCPU);
}
bool autocast_or_inference_alone() { return !c10::GradMode::is_enabled() && has_plain_keys(); }
bool autograd_and_autocast_alone() { return c10::GradMode::is_enabled() && !inference_mode() && has_plain_keys(); }

bool autocast_enabled() {
  return std::ranges::any_of(kAutocastDevices, [](at::DeviceType on) { return at::autocast::is_autocast_enabled(on); });
}
bool grad_enabled() { return c10::GradMode::is_enabled(); }
bool inference_mode() { return c10::InferenceMode::is_enabled(); }
bool forward_grad_enabled() { return c10::AutogradState::get_tls_state().get_fw_grad_mode(); }
bool saved_tensors_hooked() { return c10::GradMode::is_enabled() && !tls_of_thread().hooks->stack.empty(); }
bool jit_tracing() { return *tls_of_thread().tracing != nullptr; }
void set_grad_enabled(bool on) { c10::GradMode::set_enabled(on); }

}  // namespace gramme::aten
