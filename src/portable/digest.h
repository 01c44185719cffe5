// A digest of a code object: the same for code that does the same, in whichever process it was compiled.
//
// Included: instructions without CPython's specialisations, constants (nested code by its digest), names, kinds of
// variables, numbers of arguments, flags, the exception table, the code's own names, the version of CPython. Not
// included: file and lines, which tracebacks take from the live code.
#pragma once
#include <string>

#include "base/ref.h"

namespace gramme::portable {

/// 32 bytes, kept with the code object; empty if it has a constant that the compiler never makes. Runs no Python.
std::string digest_of(PyCodeObject* code);

}  // namespace gramme::portable
