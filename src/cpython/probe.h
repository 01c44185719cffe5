// Layouts of CPython's that gramme is compiled for, beside those of the interpreter that runs.
#pragma once
#include "base/layout.h"

namespace gramme::cpython {

/// Sizes are those that types tell, offsets those of their members, and what newer versions write down for debuggers.
/// Nothing is read by a layout that is in question. Throws PythonError.
std::vector<Layout> layouts();
/// The layouts of frames among them (image.cpp).
std::vector<Layout> frame_layouts();

}  // namespace gramme::cpython
