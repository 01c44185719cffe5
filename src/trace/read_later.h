// What a function reads that runs after the graph (a backward, a hook): it must find everything as it was when it was
// traced.
#pragma once
#include <unordered_set>
#include <vector>

#include "trace/trace.h"

namespace gramme::trace {

class Rebuilder;

/// True if the holder belongs to torch, gramme or the standard library, whose constants do not change.
bool is_of_library(const Value* holder);

/// Objects of the capture that such a function receives. State of the scope.
class ReadLater {
 public:
  /// Adds the value and all that is reachable by subscripts and attributes. Ends the segment at a value whose reads
  /// would not be reported (confined.h).
  void keep(Trace& trace, Value* value);
  /// Adds the new lists and dicts of a result that is also kept elsewhere; existing objects need no check.
  void keep_made(Trace& trace, Value* value);
  /// Adds a cell that the capture made, for a hook. If the cell changes later, the hook is registered by replay
  /// instead.
  void keep_cell(Trace& trace, value::Cell* cell) {
    kept_.push_back({cell, {trace.see(cell->content)}, trace.steps(), true});
  }
  /// Ends the segment before the function was passed on if an object kept for it has changed or escapes.
  void check(Trace& trace, const Rebuilder& rebuild) const;
  const std::unordered_set<const Value*>& known() const { return known_; }
  /// Notes a name that may be rebound before the function runs, which is then checked. Constants are rebound often, so
  /// they end the segment if more than one graph is allowed.
  void note(Trace& trace, Value* holder, PyObject* name, Value* found);
  struct Name {
    Owned<> holder;  // a cell, a dict, a module, a class or a function
    PyObject* name;  // null if the holder is a cell
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
