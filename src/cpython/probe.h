// Compares the layouts of CPython's objects that gramme was compiled for with those of the running interpreter.
#pragma once
#include "base/layout.h"

namespace gramme::cpython {

/// Sizes come from the types, offsets from their member tables and from the table that newer versions keep for
/// debuggers. No object is read through a layout in doubt. Throws PythonError.
std::vector<Layout> layouts();
/// The layouts of frames; defined in image.cpp.
std::vector<Layout> frame_layouts();

}  // namespace gramme::cpython
