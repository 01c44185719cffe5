// The operators that Python code asks the dispatcher for: what eager execution counts as operations. What an operator
// calls in its turn is not counted.
#pragma once
#include <cstdint>
#include <memory>

namespace gramme::aten {

/// How many were asked for so far; the numbers only rise while somebody counts.
struct Dispatched {
  uint64_t inside = 0;    // in a graph (InGraph)
  uint64_t outside = 0;   // elsewhere, but in a backward pass
  uint64_t backward = 0;  // by autograd, in a backward pass
  uint64_t on_fakes = 0;  // under a mode that computes without data; in none of the others
};

/// From construction to destruction the operators of this thread are counted.
class CountsDispatched {
 public:
  CountsDispatched();
  ~CountsDispatched();
  CountsDispatched(const CountsDispatched&) = delete;
};

/// This thread's, and those of autograd's threads on behalf of its backward passes if `FollowsBackward` says so.
Dispatched dispatched();

/// Backward passes that begin while it lives are counted for this thread wherever they run.
class FollowsBackward {
 public:
  FollowsBackward();
  ~FollowsBackward();
  FollowsBackward(const FollowsBackward&) = delete;

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

/// Meanwhile operators with data are not counted: captures, and graphs whose number of operators is known.
class Uncounted {
 public:
  Uncounted();
  ~Uncounted();
  Uncounted(const Uncounted&) = delete;
};

/// Meanwhile operators count as inside a graph.
class InGraph {
 public:
  InGraph();
  ~InGraph();
  InGraph(const InGraph&) = delete;
};

/// What a call asks the dispatcher for from Python, wherever it is called itself: operators seen on fakes since
/// construction.
class OnFakes {
 public:
  OnFakes();
  ~OnFakes();
  OnFakes(const OnFakes&) = delete;
  uint64_t count() const;

 private:
  CountsDispatched counts_;
  int depth_;
  uint64_t before_;
};

}  // namespace gramme::aten
