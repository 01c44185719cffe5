// Operations that raise at the sizes of now, and at all that their guards allow, with a text that tells the sizes.
#pragma once
#include <vector>

#include "trace/capture.h"

namespace gramme::trace {

/// True if the chain of contexts and causes above an exception comes to another. Chains never end in a cycle: what
/// would make one ends the segment.
bool leads_to(Capture& capture, value::Value* from, const value::Value* to);

/// What a capture found raised. Nobody reads the text of what leaves the program: its frames then run plainly.
struct Failures {
  struct Failure {
    value::Object* exception;
    std::vector<shape::Expr> numbers;  // that the text may tell
  };
  std::vector<Failure> untold;
};

/// The program goes on after the exception, or after any if none is named: its text is right at these sizes alone.
void settle_failures(Capture& capture, const value::Value* exception = nullptr);

}  // namespace gramme::trace
