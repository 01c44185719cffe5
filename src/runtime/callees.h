// Python functions that begin while an instruction is carried out for real, whoever calls them: captured on their own.
#pragma once
#include <chrono>
#include <memory>

#include "cpython/evaluator.h"
#include "runtime/table.h"

namespace gramme::runtime {

/// Runs those frames as chains of the family's segments. A code object that ran several times in a row without an
/// operator in a graph is passed on to CPython. An instruction loses the hook once its frames have used up its
/// patience, unless they take only a small share of its time.
class Callees final : public cpython::FrameTaker {
 public:
  explicit Callees(std::shared_ptr<Family> family) : family_(std::move(family)) {}
  void begin(int patience) {
    patience_ = patience;
    since_ = {};
  }
  cpython::FrameRule ask(PyFunctionObject* function) noexcept override;
  PyObject* run(PyThreadState* thread, cpython::LiveFrame frame) noexcept override;
  /// What the instruction can still spend on frames that run no graph.
  int patience() const { return patience_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool earn();

  std::shared_ptr<Family> family_;
  int patience_ = 0;
  Clock::time_point since_;  // start of the time not yet counted: the first frame, moved on by the length of captures
};

/// Scope of one concrete instruction: frames that begin in it are the family's. `callees` belongs to the chain and is
/// made on demand.
class CalleesCaptured {
 public:
  CalleesCaptured(PyThreadState* thread, std::shared_ptr<Callees>& callees, const std::shared_ptr<Family>& family,
                  ResumePoint& point);
  ~CalleesCaptured();
  CalleesCaptured(const CalleesCaptured&) = delete;

 private:
  ResumePoint& point_;
  Callees* callees_;
  cpython::TakesFrames scope_;
};

/// Forgets what is known about code objects, so that those passed on to CPython are captured again.
void forget_callees();

}  // namespace gramme::runtime
