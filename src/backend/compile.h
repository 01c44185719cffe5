// Calls a torch.compile backend to compile a graph.
#pragma once
#include <vector>

#include "base/ref.h"

namespace gramme::backend {

/// What became of a graph.
struct Compiled {
  enum State : uint8_t {
    Ready,           // `function` takes the graph's inputs
    NeedsConstants,  // the backend cannot take numbers as inputs
    Again,           // the backend has learned something and wants the graph anew
    Plain,           // the program runs as it is
  };
  State state = Ready;
  Owned<> function;
};

/// Calls the backend with (graph_module, example_inputs), and `captured` too if it is one of gramme's own
/// (python/gramme/_handover.py). Throws PythonError: torch._dynamo's BackendCompilerFailed naming the backend if it
/// raised. `whole`: the program must not run plainly instead.
Compiled compile(PyObject* backend, const Owned<>& graph_module, const std::vector<Owned<>>& inputs,
                 PyObject* captured = nullptr, bool whole = true);

}  // namespace gramme::backend
