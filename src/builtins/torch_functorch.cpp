// The transforms of torch.func: their Python code is traced, and a few C functions below it become graph nodes.
//
// Levels are entered when the graph runs, and for each inference, but not during the capture. No segment ends inside a
// transform; if one would, the transform's call runs for real. Gradients and tangents depend on all computations inside
// (meta/history.h).
#include <optional>
#include <string>
#include <utility>

#include "base/once.h"
#include "base/text.h"
#include "builtins/torch_support.h"
#include "torch/names.h"

namespace gramme::builtins {

using namespace value;
using meta::Argument;
using meta::Level;

namespace {

/// A function that registers operators once per process; it is called now, since later inferences need them.
template <of_torch::Name name>
Value* load(Trace& trace, const Args& args) {
  PyObject* const function = of_torch::object(name);
  positional<0>(args, 0);
  call_real(trace, function, {});
  trace.scope().emit_mode(function, {});
  return trace.none();
}

/// State of the thread that a transform changes and restores. A segment must end in the state in which it began.
template <class T>
struct Balanced {
  std::optional<T> before;
  size_t step = 0;
  bool changed = false;
  void set(Trace& trace, const T& now, const T& next) {
    if (!before) before = now;
    if (std::exchange(changed, next != *before) == (next != *before)) return;
    if (changed)
      step = trace.scope().enter_mode();
    else
      trace.scope().modes().leave(step);
  }
};

// ---- levels

Value* depth(Trace& trace) { return trace.integer(static_cast<int64_t>(trace.scope().modes().levels().size())); }

/// _vmap_increment_nesting(batch_size, randomness): the new level's number.
Value* enter_vmap(Trace& trace, const Args& args) {
  PyObject* const enter = of_torch::object(of_torch::VmapIncrementNesting);
  auto [batch_size, randomness] = bind(args, 2, {"batch_size", "randomness"});
  PyObject *size = trace.constant_of(batch_size), *kind = trace.constant_of(randomness);
  if (!size || !PyLong_CheckExact(size) || !kind || !PyUnicode_CheckExact(kind))
    cannot(Reason::ArgumentKind, "the size of a torch.vmap");
  graph::Node* node = trace.scope().emit_mode(enter, {meta::constant(size), meta::constant(kind)});
  trace.scope().enter_level({Level::Vmap, PyLong_AsLongLong(size), utf8_of(kind)[0], false}, node);
  return depth(trace);
}

/// _grad_increment_nesting(), _jvp_increment_nesting(): the same; ends the segment in inference mode, which they would
/// leave.
template <of_torch::Name name, Level::Kind kind>
Value* enter(Trace& trace, const Args& args) {
  PyObject* const function = of_torch::object(name);
  positional<0>(args, 0);
  if (aten::inference_mode()) cannot(Reason::CallUnknown, "a transform in inference mode");
  const bool enabled = kind == Level::Grad ? aten::grad_enabled() : aten::forward_grad_enabled();
  graph::Node* node = trace.scope().emit_mode(function, {});
  trace.scope().enter_level({kind, 0, 0, enabled}, node);
  return depth(trace);
}

bool inside(Trace& trace, Level::Kind kind) {
  const auto& levels = trace.scope().modes().levels();
  return !levels.empty() && levels.back().kind == kind;
}

/// _vmap_decrement_nesting() and its like: returns the number of the level left.
template <of_torch::Name name, Level::Kind kind>
Value* leave(Trace& trace, const Args& args) {
  PyObject* const function = of_torch::object(name);
  positional<0>(args, 0);
  if (!inside(trace, kind)) cannot(Reason::CallUnknown, "leaving a transform that was entered before");
  Value* level = depth(trace);
  trace.scope().emit_mode(function, {});
  trace.scope().modes().leave_level();
  return level;
}

// ---- tensors at a level

/// A function of a tensor and a level number, which must be the innermost level's.
template <of_torch::Name name, size_t level>
Value* at_level(Trace& trace, const Args& args) {
  PyObject* const function = of_torch::object(name);
  bool known = args.positional > level && !args.keywords && trace.see(args[0])->kind == Kind::Tensor;
  PyObject* number = known ? trace.constant_of(args[level]) : nullptr;
  if (!number || !PyLong_CheckExact(number) || PyLong_AsSize_t(number) != trace.scope().modes().levels().size())
    cannot(Reason::CallUnknown, "a transform around the capture");
  return trace.emit(function, args);
}

const meta::Record& record_of(Trace& trace, const Args& args) {
  auto [object] = positional<1>(args, 1);
  auto* tensor = trace.see_as<Tensor>(object);
  if (!tensor) cannot(Reason::ArgumentKind, "a torch.func predicate on an object that is not a tensor");
  return *tensor->record;
}

Value* is_batched(Trace& trace, const Args& args) { return trace.boolean(meta::is_batched(record_of(trace, args))); }

Value* tracks_gradients(Trace& trace, const Args& args) {
  const meta::Record& record = record_of(trace, args);
  return trace.boolean(record.inner && !meta::is_batched(record));
}

Value* is_wrapped(Trace& trace, const Args& args) { return trace.boolean(record_of(trace, args).inner); }

// ---- gradients

/// Whether requires_grad may be set inside a transform.
struct Allowed : Balanced<bool> {
  bool allowed = false;
};

Value* allow_requires_grad(Trace& trace, const Args& args) {
  PyObject* const function = of_torch::object(of_torch::SetInplaceRequiresGradAllowed);
  auto [allowed] = positional<1>(args, 1);
  PyObject* flag = trace.constant_of(allowed);
  if (!flag || !PyBool_Check(flag)) cannot(Reason::ArgumentKind, "set_inplace_requires_grad_allowed");
  trace.scope().emit_mode(function, {meta::constant(flag)});
  auto& state = trace.scope().state<Allowed>();
  state.set(trace, state.allowed, flag == Py_True);
  state.allowed = flag == Py_True;
  return trace.none();
}

Value* is_requires_grad_allowed(Trace& trace, const Args& args) {
  positional<0>(args, 0);
  return trace.boolean(trace.scope().state<Allowed>().allowed);
}

/// _set_tensor_requires_grad(x) of a tensor that was just wrapped and has no other use. As in Dynamo, its result is a
/// node of its own.
Value* set_requires_grad(Trace& trace, const Args& args) {
  PyObject* const function = of_torch::object(of_torch::SetTensorRequiresGrad);
  auto [object] = positional<1>(args, 1);
  auto* tensor = trace.see_as<Tensor>(object);
  const bool wrapped = tensor && tensor->record->inner && !meta::is_batched(*tensor->record);
  const bool differentiable =
      wrapped && (meta::is_floating_point(*tensor->record) || meta::is_complex(*tensor->record));
  if (!differentiable || !inside(trace, Level::Grad) || !tensor->record->is_leaf)
    cannot(Reason::ArgumentKind, "requires_grad_() inside a transform");
  const Argument argument = trace.scope().argument(tensor);
  tensor->record = meta::with_requires_grad(tensor->record, true, true);
  graph::Node* node = trace.scope().emit_mode(function, {argument});
  auto* result = trace.make<Tensor>();
  result->node = node;
  result->record = node->record = tensor->record;
  result->made_at = tensor->made_at;
  result->base = tensor;
  result->differentiable = true;
  tensor->views.push_back(result);
  return result;
}

Value* autograd_grad(Trace& trace, const Args& args) {
  PyObject* const function = of_torch::object(of_torch::AutogradGrad);
  return trace.scope().emit_remembering(function, args);
}

// ---- hooks of saved tensors, which no transform supports

Owned<> disabled_message() {
  PyObject* const get = of_torch::object(of_torch::SavedTensorsHooksGetDisabledErrorMessage);
  return take(PyObject_CallNoArgs(get));
}

struct HooksDisabled : Balanced<std::string> {};

/// Sets the state on the thread, because operations are inferred under it.
void set_hooks_disabled(Trace& trace, PyObject* message) {
  PyObject* const disable = of_torch::object(of_torch::SavedTensorsHooksDisable);
  PyObject* const enable = of_torch::object(of_torch::SavedTensorsHooksEnable);
  trace.scope().modes().when_put_back([disable, enable, before = disabled_message()] {
    ErrorState pending;
    Owned<> done = Owned<>::steal(before.get() == Py_None ? PyObject_CallNoArgs(enable)
                                                          : PyObject_CallOneArg(disable, before.get()));
    if (!done) PyErr_Clear();
  });
  const Owned<> now = disabled_message();
  trace.scope().state<HooksDisabled>().set(trace, now.get() == Py_None ? "" : utf8_of(now.get()),
                                           message ? utf8_of(message) : "");
  if (!message) {
    call_real(trace, enable, {});
    trace.scope().emit_mode(enable, {});
    return;
  }
  call_real(trace, disable, {message});
  trace.scope().emit_mode(disable, {meta::constant(message)});
}

Value* disable_hooks(Trace& trace, const Args& args) {
  auto [message] = positional<1>(args, 1);
  PyObject* text = trace.constant_of(message);
  if (!text || !PyUnicode_CheckExact(text))
    cannot(Reason::ArgumentKind, of_torch::spelled(of_torch::SavedTensorsHooksDisable));
  set_hooks_disabled(trace, text);
  return trace.none();
}

Value* enable_hooks(Trace& trace, const Args& args) {
  positional<0>(args, 0);
  set_hooks_disabled(trace, nullptr);
  return trace.none();
}

Value* disabled_message_of_hooks(Trace& trace, const Args& args) {
  positional<0>(args, 0);
  return trace.constant(disabled_message());
}

// ---- forward AD

/// The level of forward AD that the graph entered; at most one.
struct DualLevel {
  bool open = false;
};

struct ForwardGradEnabled : Balanced<bool> {};

Value* set_forward_grad_enabled(Trace& trace, const Args& args) {
  PyObject* const function = of_torch::object(of_torch::SetFwdGradEnabled);
  auto [enabled] = positional<1>(args, 1);
  PyObject* mode = trace.constant_of(enabled);
  if (!mode || !PyBool_Check(mode)) cannot(Reason::ArgumentKind, of_torch::spelled(of_torch::SetFwdGradEnabled));
  trace.scope().modes().when_put_back([function, before = aten::forward_grad_enabled()] {
    ErrorState pending;
    if (!Owned<>::steal(PyObject_CallOneArg(function, before ? Py_True : Py_False))) PyErr_Clear();
  });
  trace.scope().state<ForwardGradEnabled>().set(trace, aten::forward_grad_enabled(), mode == Py_True);
  trace.scope().emit_mode(function, {meta::constant(mode)});
  call_real(trace, function, {mode});
  return trace.none();
}

Value* is_forward_grad_enabled(Trace& trace, const Args& args) {
  positional<0>(args, 0);
  return trace.boolean(aten::forward_grad_enabled());
}

Value* enter_dual_level(Trace& trace, const Args& args) {
  PyObject* const function = of_torch::object(of_torch::EnterDualLevel);
  positional<0>(args, 0);
  auto& level = trace.scope().state<DualLevel>();
  if (level.open || !inside(trace, Level::Jvp)) cannot(Reason::CallUnknown, "a level of forward AD");
  trace.scope().emit_mode(function, {});
  level.open = true;
  return trace.integer(0);
}

Value* exit_dual_level(Trace& trace, const Args& args) {
  PyObject* const function = of_torch::object(of_torch::ExitDualLevel);
  static PyObject* const name = intern("level");
  Value* number = args.keyword("level");
  PyObject* constant = number && !args.positional ? trace.constant_of(number) : nullptr;
  auto& level = trace.scope().state<DualLevel>();
  if (!level.open || !constant || !PyLong_CheckExact(constant))
    cannot(Reason::CallUnknown, "leaving a level of forward AD that was entered before");
  trace.scope().emit_mode(function, {}, {{name, meta::constant(constant)}});
  level.open = false;
  return trace.none();
}

Value* make_dual(Trace& trace, const Args& args) {
  PyObject* const function = of_torch::object(of_torch::MakeDual);
  if (!trace.scope().state<DualLevel>().open) cannot(Reason::CallUnknown, "a level of forward AD");
  return trace.emit(function, args);
}

Value* unpack_dual(Trace& trace, const Args& args) {
  PyObject* const function = of_torch::object(of_torch::UnpackDual);
  if (!trace.scope().state<DualLevel>().open) cannot(Reason::CallUnknown, "a level of forward AD");
  return trace.scope().emit_remembering(function, args);
}

// ---- tables

void register_levels() {
  add_rows({{of_torch::LazyLoadDecompositions, &load<of_torch::LazyLoadDecompositions>},
            {of_torch::VmapIncrementNesting, &enter_vmap},
            {of_torch::VmapDecrementNesting, &leave<of_torch::VmapDecrementNesting, Level::Vmap>},
            {of_torch::JvpIncrementNesting, &enter<of_torch::JvpIncrementNesting, Level::Jvp>},
            {of_torch::JvpDecrementNesting, &leave<of_torch::JvpDecrementNesting, Level::Jvp>},
            {of_torch::AddBatchDim, &at_level<of_torch::AddBatchDim, 2>},
            {of_torch::RemoveBatchDim, &at_level<of_torch::RemoveBatchDim, 1>},
            {of_torch::UnwrapForGrad, &at_level<of_torch::UnwrapForGrad, 1>}});
  add_rows({{of_torch::GradIncrementNesting, &enter<of_torch::GradIncrementNesting, Level::Grad>},
            {of_torch::GradDecrementNesting, &leave<of_torch::GradDecrementNesting, Level::Grad>},
            {of_torch::WrapForGrad, &at_level<of_torch::WrapForGrad, 1>},
            {of_torch::IsBatchedTensor, &is_batched},
            {of_torch::IsGradtrackingtensor, &tracks_gradients},
            {of_torch::IsFunctorchWrappedTensor, &is_wrapped}});
}

void register_gradients() {
  add_rows({{of_torch::SetInplaceRequiresGradAllowed, &allow_requires_grad},
            {of_torch::GetInplaceRequiresGradAllowed, &is_requires_grad_allowed}});
  add_rows({{of_torch::SetTensorRequiresGrad, &set_requires_grad}, {of_torch::AutogradGrad, &autograd_grad}});
  add_rows({{of_torch::SavedTensorsHooksDisable, &disable_hooks},
            {of_torch::SavedTensorsHooksEnable, &enable_hooks},
            {of_torch::SavedTensorsHooksGetDisabledErrorMessage, &disabled_message_of_hooks}});
}

void register_forward_ad() {
  add_rows({{of_torch::SetFwdGradEnabled, &set_forward_grad_enabled},
            {of_torch::IsFwdGradEnabled, &is_forward_grad_enabled}});
  add_rows({{of_torch::EnterDualLevel, &enter_dual_level},
            {of_torch::ExitDualLevel, &exit_dual_level},
            {of_torch::MakeDual, &make_dual},
            {of_torch::UnpackDual, &unpack_dual}});
  add_rows({{of_torch::MaybeLoadDecompositions, &load<of_torch::MaybeLoadDecompositions>}});
}

}  // namespace

void register_torch_functorch() {
  register_levels();
  register_gradients();
  register_forward_ad();
}

}  // namespace gramme::builtins
