// Names of stances, and what changes in the process when one is set.
#include "runtime/stance.h"

#include <stdexcept>

namespace gramme::runtime {

Stance stance_named(const std::string& name) {
  if (name == "default") return Stance::Default;
  if (name == "force_eager") return Stance::ForceEager;
  if (name == "eager_on_recompile") return Stance::EagerOnRecompile;
  if (name == "fail_on_recompile") return Stance::FailOnRecompile;
  if (name == "skip_guard_eval_unsafe") return Stance::SkipGuards;
  if (name == "force_backend") return Stance::ForceBackend;
  if (name == "eager_then_compile") return Stance::EagerThenCompile;
  if (name == "aot_eager_then_compile") return Stance::AotEagerThenCompile;
  throw std::invalid_argument("no stance " + name);
}

void set_stance(Stance said) {
  stances->now = said;
  stances->detours = said == Stance::ForceBackend || stances->backwards_compiled;
}

}  // namespace gramme::runtime
