// Fills in node.meta of torch.fx nodes as PyTorch Dynamo does: "nn_module_stack", "source_fn_stack" and "stack_trace".
//
//   Metadata metadata;                               // one for each graph
//   metadata.describe(node, fx_node, "add");
//
// Texts are made once for each frame and instruction in the life of the process, and once for each chain of calls in a
// graph; a node costs about 3,000 instructions, less than a microsecond.
#pragma once
#include <string>
#include <unordered_map>

#include "base/ref.h"
#include "graph/graph.h"

namespace gramme::backend {

/// A frame at a code unit, formatted as by the traceback module; empty if it is not the program's.
Owned<> frame_text(PyCodeObject* code, int unit);

/// "L['self']._modules['layers']._modules['0']" -> "L['self'].layers.0".
std::string module_path(const std::string& source);

/// Adds the node's annotations by torch.fx.traceback.annotate.
void annotate(const Owned<>& fx_node, PyObject* custom);

class Metadata {
 public:
  /// For a body, `around` lists the operators that run it, with which "source_fn_stack" begins.
  explicit Metadata(Owned<> around = {}) : around_(std::move(around)) {}
  /// The same for a body that the operator runs.
  Owned<> inside(PyObject* op) const;
  /// `name` is the node's name before a variable renamed it.
  void describe(const graph::Node& node, const Owned<>& fx_node, const std::string& name);

 private:
  /// A chain of frames as text. Of more than three equal frames in a row only three are shown, with the number of
  /// others.
  struct Stack {
    Owned<> text;
    PyCodeObject* code = nullptr;  // of the innermost shown frame
    int line = 0;
    int repeats = 0;  // consecutive frames equal to the innermost
    Owned<> full() const;
  };
  struct Modules {
    Owned<> stack;         // dict: key -> (path, class)
    Owned<> source_class;  // the innermost module's class, if operations are attributed to it
  };

  const Stack& stack(const graph::Position* caller);
  static Stack below(const Stack& outer, const graph::Position& position);
  const Modules& modules(const graph::ModuleCall* call);
  const std::string& path(const source::Source* source);
  Owned<> source(Owned<> name, PyObject* called) const;

  Owned<> around_;
  std::unordered_map<const graph::Position*, Stack> stacks_;
  std::unordered_map<const graph::ModuleCall*, Modules> modules_;
  std::unordered_map<const source::Source*, std::string> paths_;
  // consecutive nodes mostly share these
  const graph::Position *last_position_ = nullptr, *last_caller_ = nullptr;
  const Stack* last_stack_ = nullptr;
  Owned<> last_text_;
  const graph::ModuleCall* last_call_ = nullptr;
  const Modules* last_modules_ = nullptr;
};

}  // namespace gramme::backend
