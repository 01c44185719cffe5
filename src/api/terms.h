// Reduces the settings of PyTorch that captures read to a number.
#pragma once
#include <cstdint>

namespace gramme::api {

/// Numbers that are equal for equal settings, above 0 and below 2^32.
struct Settings {
  uint64_t of_captures = 0;
  uint64_t all = 0;  // includes settings of PyTorch's compilers if one gets the graph
};
Settings settings_now(bool of_compilers);

}  // namespace gramme::api
