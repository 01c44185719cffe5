// Declares the rules named in torch_shapes.def. Only meta's own sources include this.
#pragma once
#include "meta/operands.h"

namespace gramme::meta::rules {

// Several targets may share a rule.
#define RULE(homes, name, rule, signature) void rule(Operands& call);
#include "torch_shapes.def"

}  // namespace gramme::meta::rules
