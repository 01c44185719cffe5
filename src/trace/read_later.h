// What a function reads that runs some time after the graph, and must find as it was when it was traced.
#pragma once
#include <unordered_set>
#include <vector>

#include "trace/trace.h"

namespace gramme::trace {

class Rebuilder;

/// True if what has a name is a part of torch or of the standard library. Constants of those stay what they are.
bool is_of_library(const Value* holder);

/// Objects of the capture that such a function gets. Kept with the scope.
class ReadLater {
 public:
  /// The value and all that can be reached from it by subscripts and attributes. Ends the segment where a read of that
  /// would not be told (confined.h).
  void keep(Trace& trace, Value* value);
  /// New lists and dicts in a result, which stand for those that somebody else keeps; what is from before is itself.
  void keep_made(Trace& trace, Value* value);
  /// A cell that the capture made, itself, for a hook: one that changes makes the hook a late one.
  void keep_cell(Trace& trace, value::Cell* cell) {
    kept_.push_back({cell, {trace.see(cell->content)}, trace.steps(), true});
  }
  /// Ends the segment before what keeps one that changed since, or that somebody gets who may change it.
  void check(Trace& trace, const Rebuilder& rebuild) const;
  const std::unordered_set<const Value*>& known() const { return known_; }
  /// A name may hold another thing by then. It is noted: whoever runs the graph looks then. Constants and tuples under
  /// the names of variables are bound anew often, so they end the segment where more than one graph is allowed.
  void note(Trace& trace, Value* holder, PyObject* name, Value* found);
  struct Name {
    Owned<> holder;  // a cell, a dict, a module, a class or a function
    PyObject* name;  // null: of a cell
    bool operator==(const Name& other) const { return holder.get() == other.holder.get() && name == other.name; }
  };
  const std::vector<Name>& names() const { return names_; }

 private:
  void add(Value* holder, PyObject* name);
  struct Kept {
    Value* value;
    std::vector<Value*> content;
    size_t step;
    bool by_hook = false;
  };
  std::vector<Kept> kept_;
  std::unordered_set<const Value*> known_;
  std::vector<Name> names_;
};

}  // namespace gramme::trace
