// autograd.Function.apply for backends that run graphs as they are. The graph has forward's operations, then one call
// of PyTorch's own apply (gramme/_autograd_function.py), which makes the autograd node and later calls the user's
// backward.
#include <algorithm>

#include "aten/classes.h"
#include "base/imported.h"
#include "base/once.h"
#include "hop/autograd_function.h"
#include "hop/body.h"
#include "meta/wrapped.h"

namespace gramme::hop {

using namespace value;
using meta::Argument;

namespace {

/// Fields of contexts that hold tensors; PyTorch checks which of those are results.
constexpr const char* kResultsIn[] = {"to_save", "saved_for_forward", "non_differentiable"};

/// True if the tensor is of a subclass, which the graph replaces by a plain tensor.
bool has_class(const Tensor* tensor) {
  PyTypeObject* const type = tensor->record->type;
  return tensor->plain || (tensor->existing() && !aten::is_exact_tensor_type(type) && !meta::is_wrapper(type));
}

bool is_size(Trace& trace, Value* value) {
  PyTypeObject* const size = once([] { return imported_type("torch", "Size"); });
  auto* tuple = trace.see_as<Tuple>(value);
  return tuple && tuple->type == size;
}

/// True if the program cannot tell the value from one made from a node's argument, where an instance of a tensor
/// subclass is a plain tensor.
bool may_be_argument(Trace& trace, Value* value) {
  value = trace.see(value);
  if (auto* tuple = as<Tuple>(value))
    return (tuple->type == &PyTuple_Type) && std::all_of(tuple->items.begin(), tuple->items.end(),
                                                         [&](Value* item) { return may_be_argument(trace, item); });
  if (value->kind == Kind::Constant) {
    for (PyTypeObject* type : {Py_TYPE(Py_None), &PyBool_Type, &PyLong_Type, &PyFloat_Type, &PyUnicode_Type})
      if (Py_IS_TYPE(value->object, type)) return true;
    return false;
  }
  if (auto* tensor = as<Tensor>(value)) return !has_class(tensor);
  return value->kind == Kind::Number;
}

/// Refuses subclasses in the context's own fields that would reach backward as plain tensors. Only for results the node
/// restores the class, and only if the plain tensor below is not in a field too.
void check_classes(Trace& trace, const Applied& applied) {
  for (const char* name : kResultsIn) {
    for (Tensor* tensor : applied.tensors(trace, name)) {
      const auto becomes_it = [&](Value* value) {
        auto* output = as<Tensor>(value);
        return output && output->plain == tensor;
      };
      const bool ignored = strcmp(name, "non_differentiable") == 0;
      if (std::ranges::any_of(applied.outputs, becomes_it) ||
          (!ignored && has_class(tensor) && !applied.is_output(tensor)))
        cannot(Reason::TensorSubclass, std::string(name) + " of a context");
    }
  }
}

/// Attributes of the context, set by the node, or by replay after the graph.
struct Described {
  std::vector<Attribute> by_node, late;
};

Described describe(Trace& trace, const Applied& applied) {
  Described described;
  check_classes(trace, applied);
  for (const char* name : context_fields())
    if (Value* value = applied.field(trace, name)) {
      const bool checked = std::ranges::any_of(kResultsIn, [&](const char* each) { return strcmp(each, name) == 0; });
      if (!checked && !may_be_argument(trace, value)) cannot(Reason::ArgumentKind, std::string(name) + " of a context");
      described.by_node.push_back({intern(name), value});
    }
  for (const Attribute& attribute : applied.context->attributes) {
    if (!attribute.value) continue;
    const bool by_node = is_size(trace, attribute.value) || may_be_argument(trace, attribute.value);
    (by_node ? described.by_node : described.late).push_back(attribute);
  }
  return described;
}

/// The subclasses of the results; None for plain tensors.
Owned<> classes_of(const Applied& applied) {
  Owned<> classes = take(PyTuple_New(static_cast<Py_ssize_t>(applied.outputs.size())));
  for (size_t i = 0; i < applied.outputs.size(); ++i) {
    auto* tensor = as<Tensor>(applied.outputs[i]);
    PyObject* type = tensor && has_class(tensor) ? reinterpret_cast<PyObject*>(tensor->record->type) : Py_None;
    PyTuple_SET_ITEM(classes.get(), static_cast<Py_ssize_t>(i), share(type).release());
  }
  return classes;
}

/// The node's function, and the function with which replay sets late attributes.
std::pair<PyObject*, PyObject*> make_link(Trace& trace, const Applied& applied, const std::vector<Attribute>& given) {
  PyObject* const make = once([] { return imported("gramme._autograd_function", "make_link").release(); });
  Owned<> names = take(PyTuple_New(static_cast<Py_ssize_t>(given.size())));
  for (size_t i = 0; i < given.size(); ++i)
    PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), share(given[i].name).release());
  Owned<> sizes = take(PyList_New(0));
  for (const Attribute& attribute : given)
    if (is_size(trace, attribute.value)) check(PyList_Append(sizes.get(), attribute.name));
  PyObject* const has_setup = applied.has_setup ? Py_True : Py_False;
  PyObject* made = trace.keep(take(PyObject_CallFunctionObjArgs(make, applied.function->object, has_setup, names.get(),
                                                                take(PySequence_Tuple(sizes.get())).get(),
                                                                classes_of(applied).get(), nullptr)));
  return {PyTuple_GET_ITEM(made, 0), PyTuple_GET_ITEM(made, 1)};
}

Argument tensors_or_none(Trace& trace, const std::vector<Value*>& values) {
  std::vector<Argument> items;
  for (Value* value : values) {
    auto* tensor = as<Tensor>(value);
    items.push_back(tensor ? trace.scope().argument(tensor) : constant(Py_None));
    if (tensor) tensor->used = true;
  }
  return trace.scope().sequence_of(Argument::Tuple, items);
}

/// A result of a subclass: the node returns the instance, and at another index the plain tensor for later operations.
void link_classed(Trace& trace, Tensor* tensor, graph::Node* node, graph::Node* plain_node) {
  PyTypeObject* const type = once([] { return imported_type("torch", "Tensor"); });
  auto* plain = trace.make<Tensor>();
  plain->record = plain_node->record = node->record = meta::with_type(tensor->record, type);
  plain->node = plain_node;
  plain->made_at = trace.steps();
  plain->base = tensor;
  plain->differentiable = true;
  plain->special_view = tensor->special_view = tensor->record->requires_grad;
  tensor->views.push_back(plain);
  tensor->plain = plain;
  tensor->classed = node;
}

/// The tensor that apply returns for an output: the output itself, or for an argument a view of it.
Tensor* link_output(Trace& trace, const Applied& applied, Tensor* tensor, graph::Node* node, bool dirty) {
  const bool differentiable = applied.is_differentiable(trace, tensor);
  const meta::Record* record = tensor->record;
  if (differentiable || applied.is_argument(tensor))
    record = meta::with_requires_grad(record, differentiable, !differentiable);
  node->record = record;
  if (dirty) {
    trace.scope().rebase(tensor, record, node);
    return tensor;
  }
  if (!applied.is_argument(tensor)) {
    if (!differentiable && tensor->record->requires_grad)
      cannot(Reason::BodyUnsupported, "a view of what needs a gradient, marked as not differentiable");
    tensor->node = node;
    tensor->record = record;
    return tensor;
  }
  auto* view = trace.make<Tensor>();
  view->node = node;
  view->record = record;
  view->made_at = trace.steps();
  view->base = tensor;
  view->differentiable = !tensor->record->requires_grad || differentiable;
  if (view->differentiable) tensor->views.push_back(view);
  return view;
}

/// Ends the segment where PyTorch's apply would or may raise.
void expect_raise(Trace& trace, const Applied& applied, const std::vector<Tensor*>& dirty) {
  for (const Tensor* tensor : applied.tensors(trace, "to_save")) {
    const bool passed_on = applied.has_setup && applied.is_argument(tensor) && applied.is_output(tensor);
    if (passed_on || tensor->record->is_inference)
      cannot(Reason::OperatorFailed, "save_for_backward() of a tensor that cannot be saved");
  }
  for (const Tensor* tensor : dirty)
    if (tensor->record->requires_grad && tensor->record->is_leaf)
      cannot(Reason::OperatorFailed, "mark_dirty() of a leaf that needs a gradient");
  if (!aten::saved_tensors_hooked()) return;
  if (!trace.effects().empty()) cannot(Reason::LateEffect, "an operation of which hooks of saved tensors hear");
  trace.scope().expect_raise();
}

}  // namespace

Value* apply_by_link(Trace& trace, Applied& applied) {
  NoGrad no_grad(trace);
  applied.run_forward(trace);
  applied.check(trace);
  no_grad.end();
  const std::vector<Tensor*> dirty = applied.tensors(trace, "dirty_tensors");
  expect_raise(trace, applied, dirty);
  const Described described = describe(trace, applied);
  const auto [link, set_late] = make_link(trace, applied, described.by_node);
  std::vector<Argument> values;
  for (const Attribute& attribute : described.by_node) values.push_back(trace.scope().argument(attribute.value));
  const Argument args = tensors_or_none(trace, applied.args), outputs = tensors_or_none(trace, applied.outputs);
  graph::Node* node =
      trace.scope().emit_operator(link, {args, outputs, trace.scope().sequence_of(Argument::Tuple, values)});
  size_t plain_at = applied.outputs.size();
  for (size_t i = 0; i < applied.outputs.size(); ++i) {
    auto* tensor = as<Tensor>(applied.outputs[i]);
    if (!tensor) continue;
    const bool is_dirty = std::find(dirty.begin(), dirty.end(), tensor) != dirty.end();
    graph::Node* item = trace.scope().item(node, i, tensor->record);
    const bool classed = has_class(tensor);
    if (classed && (is_dirty || applied.is_argument(tensor)))
      cannot(Reason::TensorSubclass, "a forward that returns its argument");
    applied.outputs[i] = link_output(trace, applied, tensor, item, is_dirty);
    if (classed) link_classed(trace, tensor, item, trace.scope().item(node, plain_at++, tensor->record));
  }
  for (const Attribute& attribute : described.late)
    trace.call_in_replay(set_late, {trace.constant(attribute.name), attribute.value});
  return applied.result(trace);
}

}  // namespace gramme::hop
