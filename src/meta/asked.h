// How often captures asked functions of the program's for an answer that no guard is about: what another capture would
// be told may be another thing.
#pragma once
#include <cstdint>

namespace gramme::meta {

inline uint64_t asked_program = 0;  // guarded by the GIL

}  // namespace gramme::meta
