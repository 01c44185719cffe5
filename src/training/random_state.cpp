// Reads and sets the state under the generator's lock.
#include "training/random_state.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace gramme::native {

at::Tensor random_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace gramme::native
