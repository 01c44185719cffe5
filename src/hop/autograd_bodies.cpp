// autograd.Function.apply for backends that compile: the operator autograd_function_apply, with forward and backward as
// bodies. Backward is traced at the call of apply but runs later, so it may read only the context and objects that
// cannot change (trace/confined.h).
#include <algorithm>

#include "base/imported.h"
#include "base/once.h"
#include "bytecode/code.h"
#include "cpython/objects.h"
#include "hop/autograd_function.h"
#include "hop/body.h"
#include "torch/names.h"
#include "trace/bodies.h"
#include "trace/custom_views.h"
#include "trace/read_later.h"
#include "trace/wrappers.h"

namespace gramme::hop {

using namespace value;
using meta::Argument;

namespace {

/// True if the code compares something with None, perhaps in a jump.
bool looks_for_none(PyCodeObject* code) {
  using opcode::Op;
  static constexpr Op kAsking[] = {Op::IS_OP, Op::POP_JUMP_IF_NONE, Op::POP_JUMP_IF_NOT_NONE};
  const auto& instructions = bytecode::decode(code).instructions();
  return std::any_of(instructions.begin(), instructions.end(), [](const bytecode::Instruction& instruction) {
    return std::find(std::begin(kAsking), std::end(kAsking), instruction.op) != std::end(kAsking);
  });
}

/// The outermost node that an input stands for.
const graph::Node* outermost(const graph::Node* node) {
  while (node && node->outer) node = node->outer;
  return node;
}

/// The tensors that backward gets through the context: saved ones, and those in attributes that forward set.
class Reachable {
 public:
  Reachable(Trace& trace, const Applied& applied) : trace_(trace) {
    for (Tensor* tensor : applied.tensors(trace, "to_save")) add(tensor);
    for (const Attribute& attribute : applied.context->attributes)
      if (attribute.value) add(attribute.value);
  }
  const std::vector<Tensor*>& tensors() const { return tensors_; }
  /// True if this input of backward stands for one of them.
  bool has(const graph::Node* input) const {
    return std::any_of(tensors_.begin(), tensors_.end(),
                       [&](const Tensor* tensor) { return outermost(tensor->node) == outermost(input); });
  }

 private:
  void add(Value* value) {
    trace::Capture::Deeper deeper(trace_);
    value = trace_.see(value);
    if (value->kind != Kind::Tensor && value->existing()) return;  // a read of it is refused
    if (auto* tensor = as<Tensor>(value)) add_with_parts(tensor);
    if (auto* tuple = as<Tuple>(value))
      for (Value* item : tuple->items) add(item);
    if (auto* list = as<List>(value))
      for (Value* item : list->items()) add(item);
    if (auto* dict = as<Dict>(value)) dict->entries.each([&](Table::Entry& entry) { add(entry.value); });
    if (auto* object = as<Object>(value))
      for (const Attribute& attribute : object->attributes)
        if (attribute.value) add(attribute.value);
  }

  /// A wrapper leads to its inner tensors.
  void add_with_parts(Tensor* tensor) {
    tensors_.push_back(tensor);
    trace_.scope().state<trace::Wrappers>().each_known(tensor, [&](Tensor* part) { tensors_.push_back(part); });
  }

  Trace& trace_;
  std::vector<Tensor*> tensors_;
};

/// The code of a function without its wrappers (functools.wraps); null if it has none.
PyCodeObject* code_below(PyObject* function) {
  Owned<> below = share(function);
  while (PyObject_HasAttrString(below.get(), "__wrapped__"))
    below = take(PyObject_GetAttrString(below.get(), "__wrapped__"));
  return PyFunction_Check(below.get()) ? reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(below.get())) : nullptr;
}

class Backward {
 public:
  Backward(Trace& trace, const Applied& applied) : trace_(trace), applied_(applied) {
    static PyObject* const k_backward = intern("backward");
    refuse_variants();
    function_ = trace.see(protocol::get_attribute(trace, applied.function, k_backward));
    code_ = function_->object ? code_below(function_->object) : nullptr;
    if (!code_) cannot(Reason::BodyUnsupported, "a backward that is not a Python function");
    Value* materialize = applied.field(trace, "materialize_grads");
    const bool maybe_none = materialize && trace.see(materialize) != trace.boolean(true) && applied.outputs.size() > 1;
    if (maybe_none && (trace.contract.breaks || looks_for_none(code_)))
      cannot(Reason::BodyUnsupported, "a backward that is called with None for some gradients");
  }

  /// Traces backward into a body, which returns the gradient of each input of forward.
  graph::Graph* run(const Reachable& reachable, const graph::Graph& forward) {
    auto& read_later = trace_.scope().state<trace::ReadLater>();
    show_saved();
    read_later.keep(trace_, applied_.context);
    Body body(trace_, "bwd_body", Effects::Forbidden);
    body.runs_later();
    std::vector<Value*> args = {applied_.context};
    for (size_t i = 0; i < applied_.outputs.size(); ++i) args.push_back(gradient(body, i));
    NoGrad no_grad(trace_);
    Value* result = body.call(function_, {args.data(), args.size(), nullptr, 0});
    std::vector<Value*> gradients = checked(trace_.see(result));
    std::vector<Argument> returned;
    for (const graph::Node* input : forward.placeholders()) returned.push_back(gradient_of(input, gradients));
    no_grad.end();
    graph::Graph* graph = body.returns(trace_.scope().sequence_of(Argument::Tuple, returned));
    for (const graph::Node* input : graph->placeholders())
      if (input->outer && !input->symbol && !reachable.has(input))
        cannot(Reason::EffectInBody, "a tensor that backward does not read from its context");
    return graph;
  }

 private:
  /// Refuses other ways to define or to receive a gradient.
  void refuse_variants() {
    PyTypeObject* const base = of_torch::type(of_torch::AutogradFunction);
    for (const char* name : {"vjp", "boxed_grads_call", "clear_saved_tensors_on_access"})
      if (trace_.type_lookup(applied_.function->type(), intern(name)) != cpython::type_lookup(base, intern(name)))
        cannot(Reason::BodyUnsupported, std::string(name) + " of an autograd.Function");
    PyTypeObject* const of_hooks = of_torch::type(of_torch::BackwardHookFunction);
    if (applied_.function->type() == of_hooks)
      cannot(Reason::BodyUnsupported, "backward hooks of a module, which look for the node");
    if (applied_.field(trace_, of_torch::text(of_torch::MaterializeNonDiffGrads)))
      cannot(Reason::BodyUnsupported, "_materialize_non_diff_grads of an autograd.Function");
  }

  /// The input for an output's gradient, named like backward's parameter.
  Value* gradient(Body& body, size_t output) {
    auto* tensor = as<Tensor>(applied_.outputs[output]);
    if (!tensor) return trace_.none();
    const bool named = output + 1 < static_cast<size_t>(code_->co_argcount);
    const char* label = "grad";
    if (named)
      label = PyUnicode_AsUTF8(PyTuple_GET_ITEM(code_->co_localsplusnames, static_cast<Py_ssize_t>(output) + 1));
    Tensor* made = body.input(meta::with_requires_grad(tensor->record, false, true), label);
    trace_.scope().writes().keep_unwritten(made);
    return made;
  }

  void show_saved() {
    Value* saved = applied_.field(trace_, "to_save");
    applied_.context->slots.push_back({intern("saved_tensors"), saved ? saved : trace_.tuple({})});
  }

  /// One gradient for each argument of apply: None, or a tensor like the argument.
  std::vector<Value*> checked(Value* result) {
    auto* several = as<Tuple>(result);
    std::vector<Value*> gradients = several ? several->items : std::vector<Value*>{result};
    for (Value*& gradient : gradients) gradient = trace_.see(gradient);
    while (gradients.size() > applied_.args.size() && gradients.back() == trace_.none()) gradients.pop_back();
    if (gradients.size() != applied_.args.size())
      cannot(Reason::BodyUnsupported, "a backward that returns another number of gradients than apply has arguments");
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i] == trace_.none()) continue;
      auto *gradient = as<Tensor>(gradients[i]), *argument = as<Tensor>(applied_.args[i]);
      const bool fits = gradient && argument && gradient->record->sizes == argument->record->sizes &&
                        gradient->record->dtype == argument->record->dtype &&
                        gradient->record->device_type == argument->record->device_type &&
                        gradient->record->device_index == argument->record->device_index &&
                        gradient->record->layout == argument->record->layout;
      if (!fits) cannot(Reason::BodyUnsupported, "a backward that returns a gradient unlike the argument");
    }
    return gradients;
  }

  /// The sum of the gradients of all arguments that are the tensor behind this input of forward.
  Argument gradient_of(const graph::Node* input, const std::vector<Value*>& gradients) {
    PyObject* const add = once([] { return imported("operator", "add").release(); });
    Value* sum = nullptr;
    for (size_t i = 0; i < gradients.size(); ++i) {
      auto* argument = as<Tensor>(applied_.args[i]);
      if (!argument || gradients[i] == trace_.none() || outermost(input) != outermost(argument->node)) continue;
      sum = sum ? trace_.emit(add, {sum, gradients[i]}) : gradients[i];
    }
    return sum ? trace_.scope().argument(sum) : constant(Py_None);
  }

  Trace& trace_;
  const Applied& applied_;
  Value* function_;
  PyCodeObject* code_;
};

Argument positions(Trace& trace, const std::vector<size_t>& numbers) {
  std::vector<Argument> items;
  for (size_t number : numbers) items.push_back(constant(trace.keep(take(PyLong_FromSize_t(number)))));
  return trace.scope().sequence_of(Argument::List, items);
}

/// Makes each tensor argument an input of forward, so that there is a place for its gradient.
void lift_arguments(Trace& trace, const Applied& applied) {
  for (Value* arg : applied.args)
    if (auto* tensor = as<Tensor>(arg)) trace.scope().node(tensor)->effect = true;
}

/// Names results as PyTorch's front end does: after variables of a helper that it traces around forward.
void hint(Trace& trace, const Applied& applied) {
  static PyObject* const k_one = intern("outs");
  static PyObject* const k_each = intern("out");
  for (Value* output : applied.outputs)
    if (auto* tensor = as<Tensor>(output); tensor && tensor->node)
      trace.scope().graph().hint(tensor->node, applied.single ? k_one : k_each);
}

bool contains(const std::vector<Tensor*>& tensors, const Value* value) {
  return std::find(tensors.begin(), tensors.end(), value) != tensors.end();
}

}  // namespace

void try_bodies(Trace& trace, Applied& applied) {
  Body body(trace, "fwd_body", Effects::Forbidden);
  body.forbid_writes();
  NoGrad no_grad(trace);
  applied.run_forward(trace);
  applied.check(trace);
  no_grad.end();
  if (!applied.tensors(trace, "dirty_tensors").empty()) cannot(Reason::BodyUnsupported, "mark_dirty()");
  lift_arguments(trace, applied);
  Backward(trace, applied).run(Reachable(trace, applied), *body.graph());
  for (const graph::Node* input : body.graph()->placeholders()) {
    auto is_it = [&](Value* arg) {
      auto* tensor = as<Tensor>(arg);
      return tensor && outermost(tensor->node) == outermost(input);
    };
    if (std::ranges::none_of(applied.args, is_it)) cannot(Reason::EffectInBody, "a tensor that is not an argument");
  }
  body.leave();
}

Value* apply_by_bodies(Trace& trace, Applied& applied) {
  static PyObject* const k_view_as = intern("view_as");
  PyObject* const op = of_torch::object(of_torch::AutogradFunctionApply);
  Body body(trace, "fwd_body", Effects::Kept);
  NoGrad no_grad(trace);
  applied.run_forward(trace);
  applied.check(trace);
  no_grad.end();
  const std::vector<Tensor*> dirty = applied.tensors(trace, "dirty_tensors");
  const std::vector<Tensor*> saved = applied.tensors(trace, "to_save");
  for (const Tensor* tensor : dirty)
    if (tensor->existing() || (tensor->record->is_leaf && tensor->record->requires_grad))
      cannot(Reason::BodyUnsupported, "mark_dirty() of an input of the graph, or of a leaf");
  hint(trace, applied);
  std::vector<Tensor*> outputs;  // inside the body
  std::vector<size_t> without, dirty_at;
  for (Value*& output : applied.outputs) {
    auto* tensor = as<Tensor>(output);
    if (!tensor) continue;
    if (!applied.is_differentiable(trace, tensor)) without.push_back(outputs.size());
    if (contains(dirty, tensor)) dirty_at.push_back(outputs.size());
    if (applied.is_argument(tensor) && !contains(dirty, tensor)) {
      Value* both[] = {tensor, tensor};
      output = trace.scope().emit_method(k_view_as, Args{both, 2, nullptr, 0});
    } else if (!contains(dirty, tensor) && tensor->node->graph != body.graph()) {
      cannot(Reason::BodyUnsupported, "a forward that returns a tensor from outside");
    }
    outputs.push_back(static_cast<Tensor*>(output));
  }
  lift_arguments(trace, applied);
  const Reachable reachable(trace, applied);
  graph::Graph* backward = Backward(trace, applied).run(reachable, *body.graph());

  std::vector<Argument> returned, kept;
  for (Tensor* output : outputs) returned.push_back(trace.scope().argument(output));
  std::vector<size_t> saved_at;
  for (const graph::Node* input : backward->placeholders()) {
    if (!input->outer) continue;
    Argument& argument = kept.emplace_back();
    argument.kind = input->record ? Argument::Tensor : Argument::Number;
    argument.node = input->outer;
    argument.record = input->record;
    auto is_saved = [&](const Tensor* tensor) { return outermost(tensor->node) == outermost(input); };
    if (std::any_of(saved.begin(), saved.end(), is_saved)) saved_at.push_back(kept.size() - 1);
  }
  auto tuple = [&](const std::vector<Argument>& items) { return trace.scope().sequence_of(Argument::Tuple, items); };
  graph::Graph* forward = body.returns(tuple({tuple(returned), tuple(kept)}));

  std::vector<Argument> arguments = {trace.scope().body(forward), trace.scope().body(backward)};
  for (const Argument& argument : lifted(*forward)) arguments.push_back(argument);
  std::vector<std::pair<const char*, Argument>> keywords = {{"non_differentiable_idx", positions(trace, without)},
                                                            {"saved_for_backward_idx", positions(trace, saved_at)}};
  if (!dirty.empty()) keywords.push_back({"dirty_idx", positions(trace, dirty_at)});
  graph::Node* node = trace.scope().emit_operator(op, arguments, keywords);
  forward->caller = backward->caller = nullptr;  // its results are only the outputs
  std::erase_if(
      trace.scope().state<trace::TakenByBodies>().tensors,  // saved tensors must not be written in any case
      [&](const trace::TakenByBodies::Taken& taken) { return taken.body == forward || taken.body == backward; });
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool differentiable = std::find(without.begin(), without.end(), i) == without.end();
    const meta::Record* record = meta::with_requires_grad(outputs[i]->record, differentiable, !differentiable);
    graph::Node* item = trace.scope().item(node, i, record);
    item->hinted = outputs[i]->node->hinted;
    if (contains(dirty, outputs[i])) {
      trace.scope().rebase(outputs[i], record, item);
      continue;
    }
    outputs[i]->node = item;
    outputs[i]->record = record;
    if (outputs[i]->base) trace.scope().state<trace::CustomViews>().push_back(outputs[i]);
  }
  for (Tensor* tensor : reachable.tensors()) trace.scope().writes().keep_unwritten(tensor);
  return applied.result(trace);
}

}  // namespace gramme::hop
