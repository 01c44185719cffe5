// Operations that raise at all sizes which the guards admit, but with a message that mentions the present sizes.
#pragma once
#include <vector>

#include "trace/capture.h"

namespace gramme::trace {

/// True if `to` is reachable from `from` by contexts and causes. Chains have no cycles: the segment ends before one is
/// made.
bool leads_to(Values& values, value::Value* from, const value::Value* to);

/// Such exceptions of a capture. If one leaves the program its text need not be right, since the frames then run
/// uncompiled.
struct Failures {
  struct Failure {
    value::Object* exception;
    std::vector<shape::Expr> numbers;  // numbers that the text may mention
  };
  std::vector<Failure> untold;
};

/// Makes the sizes constants that the exception's text (or any, if none is named) may mention, because the program
/// continues after it.
void settle_failures(Capture& capture, const value::Value* exception = nullptr);

}  // namespace gramme::trace
