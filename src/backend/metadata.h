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

/// A frame at a code unit as the traceback module writes it, if it is of the program; else empty.
Owned<> frame_text(PyCodeObject* code, int unit);

/// "L['self']._modules['layers']._modules['0']" -> "L['self'].layers.0".
std::string module_path(const std::string& source);

/// What torch.fx.traceback.annotate said of the node.
void annotate(const Owned<>& fx_node, PyObject* custom);

class Metadata {
 public:
  /// For a body: `around`, a list, has the operators around it that run it, where "source_fn_stack" begins.
  explicit Metadata(Owned<> around = {}) : around_(std::move(around)) {}
  /// The same for a body that the operator runs.
  Owned<> inside(PyObject* op) const;
  /// `name`: the node's before the program's variables gave it another.
  void describe(const graph::Node& node, const Owned<>& fx_node, const std::string& name);

 private:
  /// A chain of frames as text. Of more than three equal frames in a row only three are written, and how many more.
  struct Stack {
    Owned<> text;
    PyCodeObject* code = nullptr;  // of the innermost frame that is shown
    int line = 0;
    int repeats = 0;  // frames like the innermost at the end
    Owned<> full() const;
  };
  struct Modules {
    Owned<> stack;         // dict: key -> (path, class)
    Owned<> source_class;  // the innermost module's, if operations are filed under it
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
  // nodes beside each other mostly have these in common
  const graph::Position *last_position_ = nullptr, *last_caller_ = nullptr;
  const Stack* last_stack_ = nullptr;
  Owned<> last_text_;
  const graph::ModuleCall* last_call_ = nullptr;
  const Modules* last_modules_ = nullptr;
};

}  // namespace gramme::backend
