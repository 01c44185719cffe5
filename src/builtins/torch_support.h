// Helpers shared by the models of torch's functions.
#pragma once
#include "base/once.h"
#include "builtins/python_support.h"
#include "protocol/tensors.h"

namespace gramme::builtins {

/// A model that always returns the same bool.
template <bool answer>
Value* boolean_answer(Trace& trace, const Args&) {
  return trace.boolean(answer);
}
inline Value* none_answer(Trace& trace, const Args&) { return trace.none(); }

/// A model that ends the segment.
template <Reason reason, Text name>
Value* refuse(Trace&, const Args&) {
  cannot(reason, name.text);
}

/// A Python function or class without effects, called now on constants. Its result may depend only on aten::GlobalState
/// and on what never changes in a process.
template <Text module, Text name>
Value* folded(Trace& trace, const Args& args) {
  PyObject* const callable = once([] { return real(module.text, name.text); });
  return fold_or_stop(trace, callable, args, name.text);
}

/// A Python method that becomes a node of its own name.
template <Text name>
Value* as_method(Trace& trace, const Args& args) {
  static PyObject* const text = intern(name.text);
  auto* self = args.positional ? trace.see_as<value::Tensor>(args[0]) : nullptr;
  if (self && protocol::is_hidden(trace, self, text))
    cannot(Reason::CallUnknown, std::string("Tensor.") + name.text + ", which the instance hides");
  return trace.emit_method(text, args);
}

/// Self of a tensor method; ends the segment if it is no tensor, or if its class handles the call.
inline value::Tensor* self_tensor(Trace& trace, const Args& args, const char* method) {
  auto* tensor = args.positional ? trace.see_as<value::Tensor>(args[0]) : nullptr;
  if (!tensor) {
    std::string wanted = "Tensor.";
    cannot(Reason::ArgumentKind, wanted.append(method).append(" of something else"));
  }
  protocol::refuse_torch_function(trace, tensor, "Tensor." + std::string(method));
  return tensor;
}

/// The same for a method that reads sizes.
inline value::Tensor* sized_self(Trace& trace, const Args& args, const char* method) {
  auto* tensor = self_tensor(trace, args, method);
  protocol::refuse_jagged(*tensor->record, "Tensor." + std::string(method));
  return tensor;
}

/// Ends the segment inside a body that receives gradients, where the capture does not know what `what` asks.
inline void refuse_of_gradient(Trace& trace, const char* what) {
  if (trace.confinement.is_of_gradients()) cannot(Reason::BodyUnsupported, std::string(what).append(" in a hook"));
}

/// State of the scope: whether the program gave a tensor another one's storage.
struct Storages {
  bool replaced = false;
};

/// The torch.Size of a tensor.
value::Tuple* size_of(Trace& trace, const meta::Record& record);
/// True if the sizes (or strides) are equal; guarded for expressions.
bool same_numbers(Trace& trace, const std::vector<shape::SymInt>& a, const std::vector<shape::SymInt>& b);
/// tensor.dim()
value::Value* dim_of(Trace& trace, value::Tensor* tensor);
/// tensor.numel()
Value* element_count(Trace& trace, const meta::Record& record);
/// The result of Tensor.type(): "torch.FloatTensor".
Value* type_text(Trace& trace, const meta::Record& record);

// ---- families, one file each
void register_torch_questions();
void register_torch_functions();
void register_torch_metadata();
void register_torch_functorch();
void register_torch_hooks();
void register_torch_leaves();
void register_torch_legacy();
/// torch.tensor() or torch.empty() for an older constructor's arguments: sizes, or lists of numbers.
Value* tensor_of(Trace& trace, const Args& args, PyObject* dtype, PyObject* device, bool whole);
void register_arrays();
/// torch.tensor(array); null for other values.
Value* tensor_of_array(Trace& trace, const Args& args);
void register_torch_methods();
void register_torch_modes();
void register_torch_optim();
void register_torch_optim_steps();
void register_torch_outside();
void register_torch_distributed();
void register_torch_dtensor();
void register_torch_function_modes();
void register_torch_overrides();
void register_torch_wrappers();
void register_torch_state();
void register_torch_dynamo();

}  // namespace gramme::builtins
