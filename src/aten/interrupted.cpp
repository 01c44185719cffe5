// Wraps the vtable through which PyTorch's C++ calls Python for a tensor, once in the process. Inside a
// DispatchHoldsSignals the wrapper holds signals, then calls PyTorch's own function. At the interpreter's end it lets
// threads finish that drop tensors.
#include "aten/interrupted.h"

#include <ATen/core/stack.h>
#include <c10/core/SymBool.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/PyInterpreter.h>
#include <torch/csrc/Export.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/process.h"

TORCH_PYTHON_API c10::impl::PyInterpreter* getPyInterpreter();  // torch/csrc/PyInterpreter.h

namespace gramme::aten {
namespace {

using c10::DeviceType;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::OperatorHandle;
using c10::TensorImpl;
using torch::jit::Stack;

struct Thread {
  int scopes = 0;  // DispatchHoldsSignals objects
};
thread_local constinit Thread of_thread;

/// Two nested holds: inside a single one, look_for_signals() would still run handlers.
class Held {
 public:
  Held() {
    if (!of_thread.scopes) return;
    outer_.emplace();
    inner_.emplace();
  }

 private:
  std::optional<SignalsHeld> outer_, inner_;
};

/// CPython ends a thread that waits for the GIL when the interpreter ends; inside a destructor that ends the process.
struct State {
  std::atomic<int> dropping{0};     // atomic: threads without the GIL that drop a tensor's object
  std::atomic<bool> at_end{false};  // atomic: the interpreter ends
};
Lasting<State> state;
constexpr std::chrono::seconds kLongestWait{2};

class Dropping {
 public:
  Dropping() { ++state->dropping; }
  ~Dropping() { --state->dropping; }
  Dropping(const Dropping&) = delete;
};

/// PyTorch's own vtable, with signals held during calls that are part of an operator.
class Interpreter final : public c10::impl::PyInterpreterVTable {
 public:
  explicit Interpreter(const c10::impl::PyInterpreterVTable& inner) : inner_(inner) {}

  c10::intrusive_ptr<TensorImpl> detach(const TensorImpl* a) const override {
    const Held held;
    return inner_.detach(a);
  }
  void dispatch(const OperatorHandle& a, Stack* b) const override {
    const Held held;
    return inner_.dispatch(a, b);
  }
  void reportErrorCallback(PyObject* a, DispatchKey b) const override {
    const Held held;
    return inner_.reportErrorCallback(a, b);
  }
  void python_dispatcher(const OperatorHandle& a, DispatchKeySet b, Stack* c) const override {
    const Held held;
    return inner_.python_dispatcher(a, b, c);
  }
  bool is_contiguous(const TensorImpl* a, at::MemoryFormat b) const override {
    const Held held;
    return inner_.is_contiguous(a, b);
  }
  c10::SymBool sym_is_contiguous(const TensorImpl* a, at::MemoryFormat b) const override {
    const Held held;
    return inner_.sym_is_contiguous(a, b);
  }
  bool is_strides_like(const TensorImpl* a, at::MemoryFormat b) const override {
    const Held held;
    return inner_.is_strides_like(a, b);
  }
  bool is_non_overlapping_and_dense(const TensorImpl* a) const override {
    const Held held;
    return inner_.is_non_overlapping_and_dense(a);
  }
  c10::Device device(const TensorImpl* a) const override {
    const Held held;
    return inner_.device(a);
  }
  int64_t dim(const TensorImpl* a) const override {
    const Held held;
    return inner_.dim(a);
  }
  c10::IntArrayRef strides(const TensorImpl* a) const override {
    const Held held;
    return inner_.strides(a);
  }
  c10::IntArrayRef sizes(const TensorImpl* a) const override {
    const Held held;
    return inner_.sizes(a);
  }
  c10::SymIntArrayRef sym_sizes(const TensorImpl* a) const override {
    const Held held;
    return inner_.sym_sizes(a);
  }
  c10::Layout layout(const TensorImpl* a) const override {
    const Held held;
    return inner_.layout(a);
  }
  int64_t numel(const TensorImpl* a) const override {
    const Held held;
    return inner_.numel(a);
  }
  c10::SymInt sym_numel(const TensorImpl* a) const override {
    const Held held;
    return inner_.sym_numel(a);
  }
  c10::SymIntArrayRef sym_strides(const TensorImpl* a) const override {
    const Held held;
    return inner_.sym_strides(a);
  }
  c10::SymInt sym_storage_offset(const TensorImpl* a) const override {
    const Held held;
    return inner_.sym_storage_offset(a);
  }
  void decref(PyObject* a) const override {
    if (PyGILState_Check()) {
      const Held held;
      return inner_.decref(a);
    }
    const Dropping counted;
    if (!state->at_end) inner_.decref(a);
  }
  void reset_backward_hooks(const TensorImpl* a) const override {
    const Held held;
    return inner_.reset_backward_hooks(a);
  }

  // Calls that are not part of an operator.
  std::string name() const override { return inner_.name(); }
  void incref(PyObject* a) const override { return inner_.incref(a); }
  bool try_incref(const c10::impl::PyObjectSlot& a) const override { return inner_.try_incref(a); }
  size_t refcnt(PyObject* a) const override { return inner_.refcnt(a); }
  void python_op_registration_trampoline(const OperatorHandle& a, DispatchKey b, DispatchKeySet c, Stack* d, bool e,
                                         bool f) const override {
    return inner_.python_op_registration_trampoline(a, b, c, d, e, f);
  }
  void throw_abstract_impl_not_imported_error(std::string a, const char* b, const char* c) const override {
    return inner_.throw_abstract_impl_not_imported_error(std::move(a), b, c);
  }
  void trace_gpu_event_creation(DeviceType a, uintptr_t b) const override {
    return inner_.trace_gpu_event_creation(a, b);
  }
  void trace_gpu_event_deletion(DeviceType a, uintptr_t b) const override {
    return inner_.trace_gpu_event_deletion(a, b);
  }
  void trace_gpu_event_record(DeviceType a, uintptr_t b, uintptr_t c) const override {
    return inner_.trace_gpu_event_record(a, b, c);
  }
  void trace_gpu_event_wait(DeviceType a, uintptr_t b, uintptr_t c) const override {
    return inner_.trace_gpu_event_wait(a, b, c);
  }
  void trace_gpu_memory_allocation(DeviceType a, uintptr_t b) const override {
    return inner_.trace_gpu_memory_allocation(a, b);
  }
  void trace_gpu_memory_deallocation(DeviceType a, uintptr_t b) const override {
    return inner_.trace_gpu_memory_deallocation(a, b);
  }
  void trace_gpu_stream_creation(DeviceType a, uintptr_t b) const override {
    return inner_.trace_gpu_stream_creation(a, b);
  }
  void trace_gpu_device_synchronization(DeviceType a) const override {
    return inner_.trace_gpu_device_synchronization(a);
  }
  void trace_gpu_stream_synchronization(DeviceType a, uintptr_t b) const override {
    return inner_.trace_gpu_stream_synchronization(a, b);
  }
  void trace_gpu_event_synchronization(DeviceType a, uintptr_t b) const override {
    return inner_.trace_gpu_event_synchronization(a, b);
  }

 private:
  const c10::impl::PyInterpreterVTable& inner_;
};

}  // namespace

void watch_calls_into_python() {
  [[maybe_unused]] static const bool once = [] {  // no Python: a pointer
    c10::impl::PyInterpreter* interpreter = getPyInterpreter();
    return interpreter->vtable_ = new Interpreter(**interpreter), true;
  }();
}

DispatchHoldsSignals::DispatchHoldsSignals() { ++of_thread.scopes; }

DispatchHoldsSignals::~DispatchHoldsSignals() { --of_thread.scopes; }

void let_threads_drop() {
  state->at_end = true;
  const auto last = std::chrono::steady_clock::now() + kLongestWait;
  PyThreadState* const thread = PyEval_SaveThread();
  while (state->dropping && std::chrono::steady_clock::now() < last)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  PyEval_RestoreThread(thread);
}

}  // namespace gramme::aten
