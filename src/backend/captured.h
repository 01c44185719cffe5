// What a backend may ask about the graph it is given, while it compiles it.
#pragma once
#include <vector>

#include "base/ref.h"
#include "plan/guard_plan.h"
#include "trace/trace.h"

namespace gramme::backend {

class Captured {
 public:
  /// Refers to both until closed.
  Captured(const trace::Trace& trace, const plan::GuardDescription& guards) : trace_(&trace), guards_(&guards) {}
  /// The call of the backend is over: nothing can be asked any more.
  void close() {
    trace_ = nullptr;
    guards_ = nullptr;
  }

  /// Is an int or float an input of the graph?
  bool has_numbers() const;
  /// Is an input written whose memory other inputs share?
  bool has_aliased_writes() const;
  /// Where the inputs come from: a list of rows (kind, row of the base or -1, key or None, index, type of the object or
  /// None), a base before its children, and a list with the row of each input.
  Owned<> sources() const;
  /// A list with a tensor of the FakeTensorMode for each node of the torch.fx graph, None where a node gives no tensor.
  Owned<> examples(PyObject* mode) const;

  /// The input is part of the compiled code: the segment is for this very object.
  void freeze(size_t input) { frozen_.push_back(input); }
  const std::vector<size_t>& frozen() const { return frozen_; }

 private:
  const trace::Trace& trace() const;
  const plan::GuardDescription& guards() const;
  const std::vector<graph::Node*>& placeholders() const { return trace().scope().graph().placeholders(); }

  const trace::Trace* trace_;
  const plan::GuardDescription* guards_;
  std::vector<size_t> frozen_;
};

}  // namespace gramme::backend
