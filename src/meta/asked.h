// Counts how often captures called the program's functions for answers that no guard covers: another capture might be
// told something else.
#pragma once
#include <cstdint>

namespace gramme::meta {

inline uint64_t asked_program = 0;  // guarded by the GIL

}  // namespace gramme::meta
