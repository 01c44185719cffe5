// The state of a traced call of torch.autograd.Function.apply, and the ways to record it.
#pragma once
#include "protocol/protocol.h"

namespace gramme::hop {

using trace::Args;
using trace::Trace;
using value::Value;

/// The call's arguments, and the results of forward and setup_context.
struct Applied {
  value::Class* function = nullptr;
  bool has_setup = false;    // the class overrides setup_context
  std::vector<Value*> args;  // seen
  value::Object* context = nullptr;
  Value* needs_input_grad = nullptr;
  bool single = false;          // forward returned no tuple
  std::vector<Value*> outputs;  // seen

  bool is_argument(const Value* value) const;
  bool is_output(const Value* value) const;
  /// The value of a C field of the context (one of context_fields()); null if it was not set.
  Value* field(Trace& trace, const char* name) const;
  /// The tensors in a field: the arguments of mark_dirty(), mark_non_differentiable() or save_for_backward().
  std::vector<value::Tensor*> tensors(Trace& trace, const char* field) const;
  /// Calls forward, and setup_context if the function has one, with grad mode off.
  void run_forward(Trace& trace);
  /// Ends the segment where apply might raise, or would do something that is not modelled here.
  void check(Trace& trace) const;
  /// True if the output may have a gradient.
  bool is_differentiable(Trace& trace, value::Tensor* output) const;
  Value* result(Trace& trace) const;
};

/// Fields of contexts that programs set, through torch's methods or directly.
const std::vector<const char*>& context_fields();

/// Turns grad mode off, in the graph too, until end().
class NoGrad {
 public:
  explicit NoGrad(Trace& trace);
  void end();
  /// Leaves the mode's nodes out of the graph: no operation in between depends on the mode.
  void forget();
  const graph::Node* began() const { return began_; }

 private:
  graph::Node* set(bool on);
  Trace& trace_;
  aten::GlobalState before_;
  bool was_on_;
  graph::Node *began_ = nullptr, *ended_ = nullptr;
};

/// For backends that run graphs as they are: records forward's operations and then a call of PyTorch's own apply.
Value* apply_by_link(Trace& trace, Applied& applied);

/// For backends that compile: records PyTorch's operator with forward and backward as bodies.
Value* apply_by_bodies(Trace& trace, Applied& applied);

/// Inside transforms of torch.func: records a call of the function itself, after tracing showed that it changes
/// nothing.
Value* apply_in_transforms(Trace& trace, Applied& applied);

/// Traces forward and backward into graphs that are thrown away. Ends the segment if they change anything outside, or
/// read tensors from there.
void try_bodies(Trace& trace, Applied& applied);

void register_autograd_function();

}  // namespace gramme::hop
