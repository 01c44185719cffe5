// How far a capture has come: the work it has done, how deep it is in the program's calls, and where it must end.
//
//   Progress progress(policy);
//   progress.tick();                         // ends the segment beyond the budget
//   progress.stop_at(step, reason, detail);  // the capture starts again, to end before this step
//
// Only counts; a capture that starts again has its own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "trace/policy.h"

namespace gramme::trace {

class Progress {
 public:
  explicit Progress(const Policy& policy) : policy_(policy) {}
  Progress(const Progress&) = delete;

  int frameless = 0;  // running Python functions that are replaced by models

  /// Counts one unit of work against the budget.
  void tick() {
    if (++instructions_ > policy_.max_instructions) cannot(policy_.beyond);
  }
  /// Starts again with the segment ending before this step.
  [[noreturn]] void stop_at(size_t step, Reason reason, const std::string& detail) {
    stop_at_ = step;
    cannot(reason, detail);
  }
  size_t stops_at() const { return stop_at_; }

  // ---- inlined calls
  void enter_call() {
    if (++depth_ > deepest_) deepest_ = depth_;
  }
  void leave_call() { --depth_; }
  int depth() const { return depth_; }
  int deepest() const { return deepest_; }
  /// True if no further call may be inlined.
  bool is_deepest() const { return depth_ >= policy_.max_depth; }

 private:
  const Policy& policy_;
  size_t instructions_ = 0;
  size_t stop_at_ = SIZE_MAX;
  int depth_ = 0, deepest_ = 0;
};

}  // namespace gramme::trace
