// The process-wide stance set by torch.compiler.set_stance: whether entries capture, and what happens without a
// segment.
#pragma once
#include <cstdint>
#include <string>

#include "base/process.h"

namespace gramme::runtime {

enum class Stance : uint8_t {
  Default,
  ForceEager,           // entries run uncompiled
  EagerOnRecompile,     // calls that no segment serves run uncompiled
  FailOnRecompile,      // ... raises
  EagerThenCompile,     // the first call of a function runs uncompiled, and shows what varies
  AotEagerThenCompile,  // the first capture of each place is for aot_eager, and lasts
  SkipGuards,           // as FailOnRecompile, with PyTorch's other message: guards are still checked
  ForceBackend,         // entries call the same function compiled for another backend (gramme._policy.forced)
};

struct Stances {
  Stance now = Stance::Default;  // GIL, a word
  /// GIL, a word: some call may bypass its entry's segments, because a stance forces a backend or an entry compiles its
  /// backward.
  bool detours = false;
  bool backwards_compiled = false;  // GIL, a word: an entry compiles its backward
  /// GIL, a word: torch.compiler.set_enable_guard_collectives. A segment runs only if one fits in every process of the
  /// group, and is captured in all of them otherwise.
  bool guards_together = false;
};
inline OfProcess<Stances> stances;

void set_stance(Stance said);

/// Throws std::invalid_argument for a name that PyTorch does not have.
Stance stance_named(const std::string& name);

}  // namespace gramme::runtime
