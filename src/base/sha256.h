// SHA-256, for digests that other processes compare. Slow and small: nothing of a hit or a capture asks for one.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace gramme {

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(std::string_view bytes);
/// Lower case, two digits a byte.
std::string hex(std::string_view bytes);

}  // namespace gramme
