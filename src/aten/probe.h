// Layouts of torch's that gramme is compiled for, beside those of the torch that runs.
#pragma once
#include "base/layout.h"

namespace gramme::aten {

/// Up to the first that differs: nothing is read by a layout that is in question.
std::vector<Layout> layouts();
/// The layout of a tensor's object among them (python.cpp).
Layout tensor_object_layout();

}  // namespace gramme::aten
