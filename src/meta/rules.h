// Answers for the operators that programs call most, whose sizes vary, without fakes: sizes and strides by a formula,
// everything else as it is of the same call on numbers. A formula that is not right now is not used.
#pragma once
#include <optional>

#include "meta/infer.h"

namespace gramme::meta {

/// None if no rule knows.
std::optional<Outcome> by_rule(const Call& call, const std::vector<Level>& levels, shape::Assumptions& assumptions);

}  // namespace gramme::meta
