// Detects warnings issued by Python code during a recording: operators warn again at each replay, Python code would
// not.
#pragma once
#include "base/ref.h"

namespace gramme::native {

/// Scope in which calls of warnings.warn on this thread are noted.
class WarningsWatch {
 public:
  WarningsWatch();
  ~WarningsWatch();
  WarningsWatch(const WarningsWatch&) = delete;
  /// True if it was called since the last take().
  bool take();
};

}  // namespace gramme::native
