// What torch.compiler.set_stance says of captures, in the whole process.
#pragma once
#include <cstdint>
#include <string>

namespace gramme::runtime {

enum class Stance : uint8_t {
  Default,
  ForceEager,           // entries run plainly
  EagerOnRecompile,     // what no segment serves runs plainly
  FailOnRecompile,      // ... raises
  EagerThenCompile,     // the first call of a function runs plainly, and teaches what varies
  AotEagerThenCompile,  // the first capture of each place is for aot_eager, and lasts
  SkipGuards,           // as FailOnRecompile, in PyTorch's other words: guards are checked all the same
  ForceBackend,         // entries call their forms with another backend (gramme._policy.forced)
};

/// Guarded by the GIL.
inline Stance stance = Stance::Default;

/// Whether a call of an entry may take another way than to its own segments: a stance that forces a backend, or an
/// entry whose backward is compiled. Guarded by the GIL.
inline bool detours = false, backwards_compiled = false;

void set_stance(Stance said);

/// Throws std::invalid_argument for a name that PyTorch does not have.
Stance stance_named(const std::string& name);

}  // namespace gramme::runtime
