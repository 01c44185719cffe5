// What a function reads that runs some time after the graph, and must find as it was when it was traced.
#pragma once
#include <unordered_set>
#include <vector>

#include "trace/trace.h"

namespace gramme::trace {

class Rebuilder;

/// Objects of the capture that such a function gets. Kept with the scope.
class ReadLater {
 public:
  /// The value and all that can be reached from it by subscripts and attributes. Ends the segment where a read of that
  /// would not be told (confined.h).
  void keep(Trace& trace, Value* value);
  /// Ends the segment before what keeps one that changed since, or that somebody gets who may change it.
  void check(Trace& trace, const Rebuilder& rebuild) const;
  const std::unordered_set<const Value*>& known() const { return known_; }

 private:
  struct Kept {
    Value* value;
    std::vector<Value*> content;
    size_t step;
  };
  std::vector<Kept> kept_;
  std::unordered_set<const Value*> known_;
};

}  // namespace gramme::trace
