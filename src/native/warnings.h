// Warnings that Python code issues while a program is recorded: operators repeat theirs at each replay, Python does
// not.
#pragma once
#include "base/ref.h"

namespace gramme::native {

/// While it lives, warnings.warn notes that it was called on this thread.
class WarningsWatch {
 public:
  WarningsWatch();
  ~WarningsWatch();
  WarningsWatch(const WarningsWatch&) = delete;
  /// True if it was called since the last time.
  bool take();
};

}  // namespace gramme::native
