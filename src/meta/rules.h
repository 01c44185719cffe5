// Rules infer frequent operators at varying sizes without symbolic fakes: sizes and strides by a formula, everything
// else from the same call on numbers. A formula that disagrees with the present sizes is not used.
#pragma once
#include <optional>

#include "meta/infer.h"

namespace gramme::meta {

/// The outcome by a rule; nullopt if no rule applies.
std::optional<Outcome> by_rule(const Call& call, const std::vector<Level>& levels, shape::Assumptions& assumptions);

}  // namespace gramme::meta
