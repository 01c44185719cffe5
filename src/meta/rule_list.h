// The rules of rules.def. Only meta's own sources include this.
#pragma once
#include "meta/operands.h"

namespace gramme::meta::rules {

// Several targets may have one rule.
#define RULE(homes, name, rule, signature) void rule(Operands& call);
#include "meta/rules.def"

}  // namespace gramme::meta::rules
