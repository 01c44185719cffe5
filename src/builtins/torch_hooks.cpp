// Autograd hooks. Replay registers a hook on the real tensor by torch's own method, which also makes the handle. That
// is early enough, since no gradient flows before the segment is done.
#include "base/once.h"
#include "builtins/torch_support.h"
#include "torch/names.h"

namespace gramme::builtins {

using namespace value;

namespace {

Object* new_handle(Trace& trace) {
  auto* const type = of_torch::type(of_torch::RemovableHandle);
  auto* handle = trace.make<Object>();
  handle->type = type;
  return handle;
}

Value* register_with(Trace& trace, PyObject* method, Tensor* tensor, Value* hook, const char* name) {
  trace.scope().fix(tensor, name);
  Object* handle = new_handle(trace);
  trace.call_in_replay(method, {tensor, hook}, handle);
  return handle;
}

void require_grad(Trace& trace, const Tensor* tensor, const char* message) {
  if (!trace.scope().requires_grad(tensor)) protocol::raise(trace, PyExc_RuntimeError, message);
}

/// x.register_hook(hook); raises if the tensor requires no gradient.
Value* register_hook(Trace& trace, const Args& args) {
  PyObject* const method = once([] { return real("torch", "Tensor.register_hook"); });
  auto [self, hook] = bind(args, 2, {"self", "hook"});
  (void)self;
  Tensor* tensor = self_tensor(trace, args, "register_hook");
  require_grad(trace, tensor, "cannot register a hook on a tensor that doesn't require gradient");
  return register_with(trace, method, tensor, hook, "Tensor.register_hook");
}

/// x.register_post_accumulate_grad_hook(hook): the same for leaves only.
Value* register_after_accumulation(Trace& trace, const Args& args) {
  PyObject* const method = once([] { return real("torch", "Tensor.register_post_accumulate_grad_hook"); });
  auto [self, hook] = bind(args, 2, {"self", "hook"});
  (void)self;
  Tensor* tensor = self_tensor(trace, args, "register_post_accumulate_grad_hook");
  require_grad(trace, tensor, "cannot register a hook on a tensor that doesn't require gradient");
  if (!trace.scope().is_leaf(tensor))
    protocol::raise(trace, PyExc_RuntimeError, "post accumulate grad hooks cannot be registered on non-leaf tensors");
  return register_with(trace, method, tensor, hook, "Tensor.register_post_accumulate_grad_hook");
}

Value* retain_grad(Trace& trace, const Args& args) {
  PyObject* const method = of_torch::object(of_torch::TensorBaseRetainGrad);
  positional<1>(args, 1);
  Tensor* tensor = self_tensor(trace, args, "retain_grad");
  require_grad(trace, tensor, "can't retain_grad on Tensor that has requires_grad=False");
  if (trace.scope().is_leaf(tensor) || tensor->retains_grad) return trace.none();
  trace.scope().fix(tensor, "Tensor.retain_grad");
  tensor->retains_grad = true;
  trace.call_in_replay(method, {tensor});
  return trace.none();
}

/// The dict from which an existing handle removes its hook, if captures never read that dict (tensors' hooks) and the
/// removal changes nothing else; null otherwise.
Dict* unseen_hooks(Trace& trace, Object* handle) {
  static PyObject* const reference_name = intern("hooks_dict_ref");
  static PyObject* const extra_name = intern("extra_dict_ref");
  if (!handle->existing()) return nullptr;
  auto* extra = as<Tuple>(trace.see(protocol::get_attribute(trace, handle, extra_name)));
  Value* reference = trace.see(protocol::get_attribute(trace, handle, reference_name));
  if (!extra || !extra->items.empty() || !reference->existing() || !PyWeakref_CheckRef(reference->object))
    return nullptr;
  const source::Source* source = trace.pool->child(reference->source, source::Kind::WeakTarget);
  auto* hooks = as<Dict>(trace.see(trace.wrap(PyWeakref_GET_OBJECT(reference->object), source)));
  bool seen = !hooks || hooks->loaded || hooks->entries.size() || hooks->written || hooks->absent.size();
  return (seen && !(hooks && hooks->hidden)) || trace.policy.specialized.contains(source->path) ? nullptr : hooks;
}

/// handle.remove(): in replay if the handle is made there, or if no capture reads its dict of hooks. That keeps handle
/// ids out of the guards.
Value* remove_handle(Trace& trace, const Args& args) {
  PyObject* const method = of_torch::object(of_torch::RemovableHandleRemove);
  auto* handle = args.positional == 1 && !args.keywords ? trace.see_as<Object>(args[0]) : nullptr;
  Dict* hooks = handle ? unseen_hooks(trace, handle) : nullptr;
  if (!handle || (handle->made_by < 0 && !hooks))
    return trace.inliner->call(trace.see_as<Function>(trace.pinned(method)), args);
  if (hooks) hooks->hidden = hooks->written = true;
  trace.call_in_replay(method, {handle});
  return trace.none();
}

}  // namespace

void register_torch_hooks() {
  add_rows("torch", {{"Tensor.register_hook", &register_hook},
                     {"Tensor.register_post_accumulate_grad_hook", &register_after_accumulation}});
  add_rows({{of_torch::TensorBaseRetainGrad, &retain_grad}, {of_torch::RemovableHandleRemove, &remove_handle}});
}

}  // namespace gramme::builtins
