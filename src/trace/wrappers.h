// Wrapper subclasses (classes with __torch_dispatch__): what a capture knows of their inner tensors.
//
// The graph has the wrapper itself, and calls on it run the class's code; in the capture they run on fakes
// (meta/wrapped.h). The inner tensors of an existing wrapper are found by tracing its __tensor_flatten__, so what that
// depends on is guarded.
#pragma once
#include <unordered_map>
#include <vector>

#include "value/value.h"

namespace gramme::trace {

class Trace;

/// Kept with the scope.
struct Wrappers {
  /// An inner tensor: found, found through another wrapper, or not requested yet.
  struct Part {
    value::Tensor* tensor = nullptr;
    const value::Tensor* of = nullptr;
    size_t place = 0;
  };
  std::unordered_map<const value::Tensor*, std::vector<Part>> parts;
  /// The fake result of the call that made the wrapper. Its attributes equal the real one's, except data.
  std::unordered_map<const value::Tensor*, PyObject*> likenesses;
  std::unordered_map<const graph::Node*, const value::Tensor*> inputs;

  /// The entry of an inner tensor, found or not.
  Part& find(const value::Tensor* wrapper, size_t place);
  template <class Visit>
  void each_known(const value::Tensor* wrapper, Visit&& visit) const {
    const auto found = parts.find(wrapper);
    if (found == parts.end()) return;
    for (const Part& part : found->second)
      if (part.tensor) {
        visit(part.tensor);
        each_known(part.tensor, visit);
      }
  }
};

/// The memory of a graph's inputs. A wrapper's memory is that of its inner tensors.
struct Memory {
  const graph::Node* input;
  const source::Source* source;
  PyObject* object;
};

/// Finds the inner tensors of an existing wrapper; set by the room `builtins`, which can trace its method.
using OpenWrapper = void (*)(Trace& trace, value::Tensor* wrapper);
/// Finds them for an operand of a higher-order operator, whose calls are not built from arguments of the program alone.
/// Does nothing for other tensors.
void open_operand(Trace& trace, value::Tensor* tensor);
void set_open_wrapper(OpenWrapper open);
/// The sizes of a jagged tensor; the ragged one is SymInt::any(). Ends the segment if its inner tensors do not tell
/// them.
std::vector<shape::SymInt> sizes_of_jagged(Trace& trace, value::Tensor* tensor);

}  // namespace gramme::trace
