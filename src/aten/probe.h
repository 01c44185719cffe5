// Compares the layouts of torch's objects that gramme was compiled for with those of the running torch.
#pragma once
#include "base/layout.h"

namespace gramme::aten {

/// After a layout that differs, no further field of a tensor is read.
std::vector<Layout> layouts();
/// The layout of a tensor's Python object; defined in python.cpp, which includes torch's header for it.
Layout tensor_object_layout();

}  // namespace gramme::aten
