// What captures read of PyTorch's settings, as a number.
#pragma once
#include <cstdint>

namespace gramme::api {

/// Equal for equal settings. Above 0, below 2^32.
struct Settings {
  uint64_t of_captures = 0;
  uint64_t all = 0;  // with those of PyTorch's compilers if one of them gets the graph
};
Settings settings_now(bool of_compilers);

}  // namespace gramme::api
