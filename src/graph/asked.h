// For tests: what the program called where each node was made.
#pragma once
#include <vector>

#include "graph/graph.h"

namespace gramme::graph {

/// A node, and the call of a C function, a modelled function or an operator by which it was made; without one, by the
/// instruction itself.
struct Asked {
  Owned<> called, code;
  int unit;
  bool method;
  Owned<> target;
};

/// Nodes are noted from here on, in all captures.
void note_asked(bool on);
bool notes_asked();
std::vector<Asked> take_asked();
void note(const Node* node);

/// The outermost call under way at a place in the program.
class Asking {
 public:
  Asking(PyObject* called, const Position* position);
  ~Asking();
  Asking(const Asking&) = delete;

 private:
  PyObject* called_;
  const Position* position_;
};

}  // namespace gramme::graph
