// Views that an autograd.Function returns, under backends that compile it.
#pragma once
#include <vector>

#include "value/value.h"

namespace gramme::trace {

/// State of the scope. A compiled graph recreates a returned view from its base, another result or an input, which
/// would lose the gradient of a function in between.
struct CustomViews : std::vector<value::Tensor*> {};

}  // namespace gramme::trace
