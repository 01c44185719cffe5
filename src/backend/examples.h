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
  /// A list with what each node of the torch.fx graph gives: a tensor of the FakeTensorMode, its own for each node; a
  /// tuple of such; for a body its own list; for an input of a body the place of the node around it; for an object of
  /// the program a tuple of it; else None. Sizes that vary are computed of `values`, which has an object by symbol.
  Owned<> fakes(PyObject* mode, PyObject* values) const;

 private:
  struct Example {
    enum Kind : uint8_t { Nothing, Tensor, Items, Body, Outer, Object } kind = Nothing;
    const meta::Record* record = nullptr;  // interned
    std::vector<Example> items;            // Items: what the call returns; Body: by node
    size_t place = 0;                      // Outer: among the nodes of the graph around
    Owned<> object;                        // Object
  };
  class Reader;
  class Maker;

  std::vector<Example> nodes_;
};

}  // namespace gramme::backend
