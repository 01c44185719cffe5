// What captures read of PyTorch's settings, as a number.
#pragma once
#include <cstdint>

namespace gramme::api {

/// Equal for equal settings; with those of PyTorch's compilers if one of them gets the graph. Above 0, below 2^32.
uint64_t settings_number(bool of_compilers);

}  // namespace gramme::api
