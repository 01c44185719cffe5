// Which items of the value stack are without a reference of their own.
#pragma once
#include <Python.h>

#include <vector>

namespace gramme::cpython {

/// At the code unit, behind the instructions in front of it: for items from the top of the stack down the local that
/// each was borrowed from, or -1. What is not known, as behind a jump, is left out; so is all that follows the last one
/// borrowed. Always empty where CPython counts each item.
std::vector<int> borrowed_items(PyCodeObject* code, int unit, size_t depth);

}  // namespace gramme::cpython
