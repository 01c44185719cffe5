// A call of torch.autograd.Function.apply while it is traced.
#pragma once
#include "protocol/protocol.h"

namespace gramme::hop {

using trace::Args;
using trace::Trace;
using value::Value;

/// What it was called with, and what forward and setup_context made.
struct Applied {
  value::Class* function = nullptr;
  bool has_setup = false;    // a setup_context of its own
  std::vector<Value*> args;  // seen
  value::Object* context = nullptr;
  Value* needs_input_grad = nullptr;
  bool single = false;          // forward returned no tuple
  std::vector<Value*> outputs;  // seen

  bool is_argument(const Value* value) const;
  bool is_output(const Value* value) const;
  /// What the context's field in C was set to (names of it: context_fields()); null if it was not.
  Value* field(Trace& trace, const char* name) const;
  /// The tensors of a field: what mark_dirty(), mark_non_differentiable() and save_for_backward() were given.
  std::vector<value::Tensor*> tensors(Trace& trace, const char* field) const;
  /// Calls forward, and setup_context if the function has one, with grad mode off.
  void run_forward(Trace& trace);
  /// Ends the segment where apply might raise or would do what is not known of here.
  void check(Trace& trace) const;
  /// True if the output may have a gradient.
  bool is_differentiable(Trace& trace, value::Tensor* output) const;
  Value* result(Trace& trace) const;
};

/// Fields of contexts that programs set, by torch's own methods or themselves.
const std::vector<const char*>& context_fields();

/// With grad mode off, in the graph too, until end().
class NoGrad {
 public:
  explicit NoGrad(Trace& trace);
  void end();
  /// The graph need not do it: nothing in between could tell.
  void forget();
  const graph::Node* began() const { return began_; }

 private:
  graph::Node* set(bool on);
  Trace& trace_;
  aten::GlobalState before_;
  bool was_on_;
  graph::Node *began_ = nullptr, *ended_ = nullptr;
};

/// The call that is recorded, for backends that run graphs as they are: PyTorch's own apply, after forward.
Value* apply_by_link(Trace& trace, Applied& applied);

/// PyTorch's operator with forward and backward as bodies, for backends that compile.
Value* apply_by_bodies(Trace& trace, Applied& applied);

/// Where transforms of torch.func are open: a call of the function itself, of which it is known that it changes
/// nothing.
Value* apply_in_transforms(Trace& trace, Applied& applied);

/// Traces forward and backward into graphs that nobody runs. Ends the segment if they change anything from outside, or
/// read tensors from there.
void try_bodies(Trace& trace, Applied& applied);

void register_autograd_function();

}  // namespace gramme::hop
