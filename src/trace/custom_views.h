// Views that functions with gradients of their own return, where a backend compiles them.
#pragma once
#include <vector>

#include "value/value.h"

namespace gramme::trace {

/// Kept with the scope. What a compiled graph returns as a view of another result, or of an input, is made anew from
/// that: the gradient of a function in between would be lost.
struct CustomViews : std::vector<value::Tensor*> {};

}  // namespace gramme::trace
