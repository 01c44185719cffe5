// Test-only bindings: counts the bytes of CPU tensors in an allocator; drops what the process keeps, and counts it.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "api/testing.h"
#include "base/process.h"

namespace nb = nanobind;

namespace gramme::api {
namespace {

/// Allocates like PyTorch's own allocator. The context of its pointers is the data itself, and raw_deleter frees them,
/// as some kernels demand.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = c10::alloc_cpu(bytes);
    if (data) {
      std::lock_guard lock(mutex_);
      sizes_[data] = bytes;
      held_ += bytes;
      peak_ = std::max(peak_, held_);
    }
    return {data, data, release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  size_t held() const { return held_; }
  size_t peak() const { return peak_; }
  void forget_peak() { peak_ = held_; }

 private:
  static void release(void* data);

  std::mutex mutex_;
  std::unordered_map<void*, size_t> sizes_;  // mutex_: by data
  size_t held_ = 0;                          // mutex_
  size_t peak_ = 0;                          // mutex_
};

/// Tensors may outlive everything.
Lasting<CountingAllocator> counting;

void CountingAllocator::release(void* data) {
  CountingAllocator& self = *counting;
  {
    std::lock_guard lock(self.mutex_);
    auto found = self.sizes_.find(data);
    if (found != self.sizes_.end()) {
      self.held_ -= found->second;
      self.sizes_.erase(found);
    }
  }
  c10::free_cpu(data);
}

}  // namespace

void bind_memory_testing(nb::module_& m) {
  nb::module_ memory = m.def_submodule("memory");
  memory.def("count", [] { c10::SetCPUAllocator(&*counting, 1); }, "From now on for the rest of the process.");
  memory.def("held", [] { return counting->held(); }, "Bytes allocated since count() and not freed.");
  memory.def("peak", [] { return counting->peak(); }, "The most that held() was since forget_peak().");
  memory.def("drop_state", ProcessState::drop_all,
             "As if gramme had just been loaded. For after reset(), with no entry and no capture left.");
  memory.def("state_sizes", ProcessState::sizes, "[(file, what its struct holds)], for structs that count.");
  memory.def("forget_peak", [] { counting->forget_peak(); });
}

}  // namespace gramme::api
