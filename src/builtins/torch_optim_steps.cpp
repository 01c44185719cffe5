// Steps of PyTorch's optimizers: initialising their state, and their form for compilers.
#include <algorithm>

#include "base/imported.h"
#include "base/text.h"
#include "builtins/torch_support.h"
#include "meta/targets.h"
#include "protocol/call_rules.h"
#include "torch/names.h"
#include "trace/prepared.h"

namespace gramme::builtins {

using namespace value;

namespace {

// ---- state

bool is_empty_list(Trace& trace, Value* value) {
  auto* list = trace.see_as<List>(value);
  return list && !list->existing() && list->items().empty();
}

/// True if the segment may have changed something that the initialising methods read.
bool may_have_changed(const Trace& trace) {
  auto is_apart = [](const effects::Effect& effect) {
    static PyObject *const state = intern("state"), *const groups = intern("param_groups");
    static PyObject* const defaults = intern("defaults");
    return effect.kind == effects::Kind::StoreAttr && effect.target->kind == Kind::Object && effect.name != state &&
           effect.name != groups && effect.name != defaults;
  };
  const auto& entries = trace.effects().entries();
  if (!std::ranges::all_of(entries, is_apart)) return true;
  const auto& nodes = trace.scope().root().nodes();
  return !std::ranges::all_of(nodes, [](const graph::Node* node) { return meta::sets_state(node->call.target); });
}

bool is_below(const source::Source* source, const source::Source* root) {
  for (; source; source = source->base)
    if (source == root) return true;
  return false;
}

/// True if the capture has looked into the optimizer's state.
bool is_looked_into(Trace& trace, Value* optimizer) {
  static PyObject* const name = intern("state");
  const size_t before = trace.facts.all().size();
  Value* state = trace.see(protocol::get_attribute(trace, optimizer, name));
  if (state->kind != Kind::Dict || !state->source || state->written) return true;
  return std::any_of(trace.facts.all().begin(), trace.facts.all().begin() + static_cast<std::ptrdiff_t>(before),
                     [&](const guards::Fact& fact) { return is_below(fact.source, state->source); });
}

/// Makes the state of all groups for real before the first captured step, if the segment has done nothing yet, so that
/// the first step is like all others.
void make_state(Trace& trace, Function* function, const Args& args, std::vector<Value*>&) {
  auto* optimizer = args.positional > 2 && !args.keywords ? trace.see_as<Object>(args[0]) : nullptr;
  if (!optimizer || !optimizer->existing() || !optimizer->object) return;
  if (&trace.scope().graph() != &trace.scope().root()) return;
  for (size_t i = 2; i < args.positional; ++i)
    if (!is_empty_list(trace, args[i])) return;
  if (may_have_changed(trace) || is_looked_into(trace, optimizer)) return;
  Owned<> made =
      take(PyObject_CallFunction(imported("gramme._optimizers", "make_state").get(), "OOn", optimizer->object,
                                 function->object, static_cast<Py_ssize_t>(args.positional - 2)));
  if (made.get() == Py_True) throw trace::Prepared();
}

// ---- the form for compilers

void make_capturable(Trace& trace, Function*, const Args& args, std::vector<Value*>& values) {
  static PyObject* const capturable = intern("capturable");
  if (trace.contract.as_is) return;
  for (size_t i = 0; i < args.keywords; ++i)
    if (args.names[i] == capturable) values[args.positional + i] = trace.boolean(true);
}

/// A fused step. It ends the segment under compilers, since AOTAutograd does not support it.
template <of_torch::Name name>
Value* fused(Trace& trace, const Args& args) {
  PyObject* const function = of_torch::object(name);
  if (!trace.contract.as_is) cannot(Reason::CallDisabled, of_torch::spelled(name));
  return trace.emit(function, args);
}

/// The tensor to use under a compiler where eager reads its number; null if eager may refuse it.
Value* scale_of(Trace& trace, const Args& args, const char* keyword) {
  if (trace.contract.as_is || args.keywords != 1) return nullptr;
  Value* given = args.keyword(keyword);
  auto* scale = given ? trace.see_as<Tensor>(given) : nullptr;
  if (!scale || !scale->record->sizes.empty() || scale->record->requires_grad) return nullptr;
  if (!meta::is_floating_point(*scale->record)) return nullptr;
  return scale;
}

/// x.addcdiv_(a, b, value=v) and its like for a tensor `v`: x.add_(a / b * v), which reads no number.
template <Text name, Text function>
Value* scaled(Trace& trace, const Args& args) {
  static PyObject *const method = intern(name.text), *const add = intern("add_");
  PyObject* const combine = once([] { return real("torch", function.text); });
  PyObject* const multiply = once([] { return real("torch", "mul"); });
  Tensor* self = self_tensor(trace, args, name.text);
  Value* scale = args.positional == 3 ? scale_of(trace, args, "value") : nullptr;
  if (!scale || !meta::is_floating_point(*self->record)) return trace.emit_method(method, args);
  Value* scaled = trace.emit(multiply, {trace.emit(combine, {args[1], args[2]}), scale});
  Value* adding[] = {self, scaled};
  return trace.emit_method(add, Args{adding, 2, nullptr, 0});
}

/// x.add_(y, alpha=v) for a tensor `v`.
Value* add_scaled(Trace& trace, const Args& args) {
  static PyObject* const add = intern("add_");
  PyObject* const multiply = once([] { return real("torch", "mul"); });
  Tensor* self = self_tensor(trace, args, "add_");
  Value* scale = args.positional == 2 ? scale_of(trace, args, "alpha") : nullptr;
  if (!scale || !meta::is_floating_point(*self->record)) return trace.emit_method(add, args);
  Value* adding[] = {self, trace.emit(multiply, {args[1], scale})};
  return trace.emit_method(add, Args{adding, 2, nullptr, 0});
}

}  // namespace

void register_torch_optim_steps() {
  for (auto [file, name] : of_torch::places(of_torch::MakesState)) protocol::add_call_rule(file, name, &make_state);
  for (auto [file, name] : of_torch::places(of_torch::Capturable))
    protocol::add_call_rule(file, name, &make_capturable);
  add_rows({{of_torch::FusedAdam, &fused<of_torch::FusedAdam>},
            {of_torch::FusedAdamw, &fused<of_torch::FusedAdamw>},
            {of_torch::FusedAdagrad, &fused<of_torch::FusedAdagrad>},
            {of_torch::FusedSgd, &fused<of_torch::FusedSgd>}});
  auto* const base = of_torch::type(of_torch::TensorBase);
  add_rows(base,
           {{"addcdiv_", &scaled<"addcdiv_", "div">}, {"addcmul_", &scaled<"addcmul_", "mul">}, {"add_", &add_scaled}});
}

}  // namespace gramme::builtins
