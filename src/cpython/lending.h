// Finds out which items of the value stack are borrowed references.
#pragma once
#include <Python.h>

#include <vector>

namespace gramme::cpython {

/// For a frame at this code unit: the local that each stack item was borrowed from, or -1, from the top down. Items
/// that cannot be determined (after a jump) are left out, and so are all after the last borrowed one. Always empty for
/// versions that own each item.
std::vector<int> borrowed_items(PyCodeObject* code, int unit, size_t depth);

}  // namespace gramme::cpython
