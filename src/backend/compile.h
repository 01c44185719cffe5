// Calls a torch.compile backend to compile a graph.
#pragma once
#include <vector>

#include "base/ref.h"

namespace gramme::backend {

/// The result of compiling a graph.
struct Compiled {
  enum State : uint8_t {
    Ready,           // `function` takes the graph's inputs
    NeedsConstants,  // the backend cannot take numbers as inputs
    Again,           // the backend wants the graph again, after a restart
    Plain,           // the program runs eagerly
  };
  State state = Ready;
  Owned<> function;
};

/// Calls the backend with (graph_module, example_inputs), and `captured` too if it is one of gramme's own
/// (python/gramme/_handover.py). If it raises, throws PythonError with torch._dynamo's BackendCompilerFailed. With
/// `whole`, the program may not run eagerly instead.
Compiled compile(PyObject* backend, const Owned<>& graph_module, const std::vector<Owned<>>& inputs,
                 PyObject* captured = nullptr, bool whole = true);

}  // namespace gramme::backend
