// What a code object does, as a number: the same for equal code, wherever and when it was compiled.
//
// In it: instructions without what CPython wrote into them since, constants (code in them by its own digest), names,
// kinds of variables, counts of arguments, flags, the exception table, the code's own names, the version of CPython.
// Not in it: file and lines, which tracebacks take from the live code.
#pragma once
#include <string>

#include "base/ref.h"

namespace gramme::portable {

/// 32 bytes, kept with the code object; empty if it has a constant that no compiler gives it. Runs no Python.
std::string digest_of(PyCodeObject* code);

}  // namespace gramme::portable
