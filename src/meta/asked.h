// Counts how often captures called the program's functions for answers that no guard covers: another capture might be
// told something else.
#pragma once
#include <cstdint>

#include "base/process.h"

namespace gramme::meta {

struct Asked {
  uint64_t program = 0;  // GIL, a word: calls so far
};
inline OfProcess<Asked> asked;

}  // namespace gramme::meta
