// SHA-256 by Python's hashlib: digests that other processes compare, numbers that PyTorch derives from names.
#pragma once
#include <string>
#include <string_view>

namespace gramme {

/// 32 bytes. Throws PythonError.
std::string sha256(std::string_view bytes);
/// Lower case, two digits a byte.
std::string hex(std::string_view bytes);

}  // namespace gramme
