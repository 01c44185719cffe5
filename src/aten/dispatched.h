// Counts the operators that Python code calls through the dispatcher, the operations of eager execution. Operators that
// other operators call are not counted.
#pragma once
#include <cstdint>
#include <memory>

namespace gramme::aten {

/// How many operators were called so far. The numbers rise only while a CountsDispatched exists.
struct Dispatched {
  uint64_t inside = 0;    // inside a graph (InGraph)
  uint64_t outside = 0;   // elsewhere, except in a backward pass
  uint64_t backward = 0;  // by autograd, in a backward pass
  uint64_t on_fakes = 0;  // under a mode that computes without data; not counted above
};

/// Counts this thread's operators while it exists.
class CountsDispatched {
 public:
  CountsDispatched();
  ~CountsDispatched();
  CountsDispatched(const CountsDispatched&) = delete;
};

/// This thread's counts, including autograd's threads for the backward passes that a FollowsBackward covers.
Dispatched dispatched();

/// Backward passes that begin while it exists are counted for this thread, on whichever thread they run.
class FollowsBackward {
 public:
  FollowsBackward();
  ~FollowsBackward();
  FollowsBackward(const FollowsBackward&) = delete;

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

/// While it exists, operators with data are not counted: for captures, and for graphs whose number of operators is
/// known.
class Uncounted {
 public:
  Uncounted();
  ~Uncounted();
  Uncounted(const Uncounted&) = delete;
};

/// While it exists, operators count as inside a graph.
class InGraph {
 public:
  InGraph();
  ~InGraph();
  InGraph(const InGraph&) = delete;
};

/// Counts the operators on fake tensors since its construction as if Python code had called them, even inside another
/// operator.
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
