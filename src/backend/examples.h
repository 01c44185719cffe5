// Fake results of a captured graph's nodes, for `node.meta["example_value"]`.
//
//   Examples examples(graph);                          // reads the graph once, may outlive it
//   Owned<> list = examples.fakes(mode, values);       // a list by node of the torch.fx graph
#pragma once
#include <cstdint>
#include <vector>

#include "base/ref.h"
#include "graph/graph.h"

namespace gramme::backend {

class Examples {
 public:
  explicit Examples(const graph::Graph& graph);
  /// A list with the result of each node of the torch.fx graph: a new tensor of the FakeTensorMode or a tuple of them;
  /// for a body its own list; for a body's input the index of the outer node; for an object of the program a tuple with
  /// it; else None. Varying sizes are computed from `values`, one object for each symbol.
  Owned<> fakes(PyObject* mode, PyObject* values) const;

 private:
  struct Example {
    enum Kind : uint8_t { Nothing, Tensor, Items, Body, Outer, Object } kind = Nothing;
    const meta::Record* record = nullptr;  // interned
    std::vector<Example> items;            // Items: results of the call; Body: by node
    size_t place = 0;                      // Outer: index in the graph around
    Owned<> object;                        // Object
  };
  class Reader;
  class Maker;

  std::vector<Example> nodes_;
};

}  // namespace gramme::backend
