// Makes the values of a call's results: tensors and numbers of the graph, and what they alias.
#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "torch/calls.h"
#include "torch/names.h"
#include "trace/scope.h"
#include "trace/wrapper_views.h"

namespace gramme::trace {

using namespace value;

/// The tensor that one inside a transform wraps; it becomes a value once a call returns it.
Tensor* Scope::unwrap(Tensor* tensor, int levels) {
  for (; levels > 0; --levels) {
    if (!tensor->inner) {
      auto* inner = tensor->inner = capture_.make<Tensor>();
      inner->record = tensor->record->inner;
      inner->base = tensor;
      inner->made_at = tensor->made_at;
      inner->differentiable = true;
      tensor->views.push_back(inner);
    }
    tensor = tensor->inner;
  }
  return tensor;
}

namespace {

/// True for a conversion method, which returns its operand if there is nothing to convert. Only these may return an
/// operand: for some others (dropout, dequantize) functionalizing backends copy and lose a write to the result.
bool is_conversion(const meta::Call& call) {
  return call.kind == meta::Call::Method && of_torch::is_call(utf8_of(call.target), of_torch::Converts);
}

/// True inside functions that torch.utils._pytree.tree_map calls, which PyTorch's front end handles differently.
bool is_mapping_tree(const graph::Position* at) {
  for (; at; at = at->caller) {
    if (!of_torch::is_in(at->code->co_filename, of_torch::PytreeFile)) return false;
    if (utf8_of(at->code->co_name) == "tree_map") return true;
  }
  return false;
}

/// `part`: the tensor is an inner tensor of its base.
bool shares_with_wrapper(const WrapperViews& views, const Tensor* tensor, bool part) {
  if (part) return views.nodes.contains(tensor->base->node);
  for (const Tensor* base = tensor->base; base; base = base->base)
    if (base->record->context || views.nodes.contains(base->node)) return true;
  return false;
}

}  // namespace

void Scope::name_after(const Tensor* tensor, PyObject* variable) {
  graph::Node* node = tensor->node;
  if (!node || node->hinted || node->kind == graph::Node::Placeholder) return;  // before the name, which costs more
  if (!is_mapping_tree(capture_.position())) graph_->hint(node, variable);
}

Value* Scope::result_value(const meta::Result& result, graph::Node* node, const std::vector<Tensor*>& leaves) {
  switch (result.kind) {
    case meta::Result::Constant:
      return result.object ? capture_.adopt(result.object) : capture_.none();
    case meta::Result::Number: {
      if (result.expr) {
        node->number_type = reinterpret_cast<PyTypeObject*>(result.object.get());
        if (result.expr->kind == shape::Kind::Symbol && !is_bound(result.expr)) inputs_.bind(result.expr, node);
        return capture_.numbers.expression(result.expr);
      }
      auto* number = capture_.make<Number>();
      number->node = node;
      number->type = reinterpret_cast<PyTypeObject*>(result.object.get());
      node->number_type = number->type;
      number->object = capture_.keep(take(PyObject_CallOneArg(result.object.get(), take(PyLong_FromLong(2)).get())));
      return number;
    }
    case meta::Result::Tensor: {
      node->record = result.record;
      if (data_.any() && result.record->symbolic) bind_sizes(*result.record, node);
      if (result.same_as >= 0) {
        Tensor* same = unwrap(leaves.at(result.same_as), result.unwrapped);
        const bool moves = !same->used || (!same->existing() && is_conversion(node->call));
        if (!same->node || (moves && !result.unwrapped && is_of_graph(same->node))) same->node = node;
        if (building_.asks || modes_.in_level()) remembered_[node] = same;
        return same;
      }
      if (result.record->requires_grad && result.record->is_leaf && capture_.contract.differentiates &&
          capture_.contract.breaks)
        note_leaf(result);
      if (Tensor* known = known_part(result.part, leaves)) return known;
      auto* tensor = capture_.make<Tensor>();
      tensor->node = node;
      tensor->record = result.record;
      if (result.part.place >= 0)
        state<Wrappers>().find(leaves.at(result.part.leaf), static_cast<size_t>(result.part.place)).tensor = tensor;
      if (result.record->context) note_wrapper(tensor, result, leaves);
      tensor->made_at = capture_.steps();
      if (building_.asks || modes_.in_level()) remembered_[node] = tensor;
      if (result.wraps_leaf >= 0)
        unwrap(tensor, result.wraps_at - 1)->inner = unwrap(leaves.at(result.wraps_leaf), result.wraps_unwrapped);
      if (result.shared) writes_.set_late(tensor, effects::Late::Fixed);  // in ways that are unknown
      if (result.memory_of >= 0) tensor->base = remembered_.at(history_.node_of(result.memory_of));
      if (result.view_of < 0) return tensor;
      tensor->base = leaves.at(result.view_of);
      if (has_classes_ && shares_with_wrapper(state<WrapperViews>(), tensor, result.part.place >= 0))
        state<WrapperViews>().nodes.insert(node);
      tensor->differentiable = result.differentiable_view;
      if (tensor->differentiable) tensor->base->views.push_back(tensor);
      tensor->special_view = tensor->differentiable && (!aten::grad_enabled() || is_special_to_autograd(*tensor->base));
      return tensor;
    }
    case meta::Result::Sequence:
      break;
  }
  std::vector<Value*> items;
  for (size_t i = 0; i < result.items.size(); ++i) {
    const meta::Result& item = result.items[i];
    if (item.kind == meta::Result::Constant) {
      items.push_back(result_value(item, node, leaves));
      continue;
    }
    if (item.twin >= 0) {
      items.push_back(items.at(item.twin));
      continue;
    }
    graph::Node* taken = this->item(node, i, nullptr);
    if (building_.asks || modes_.in_level()) remember(taken);
    items.push_back(result_value(item, taken, leaves));
    if (auto* view = as<Tensor>(items.back()); view && item.view_of >= 0) view->special_view = view->differentiable;
    if (item.same_as < 0) continue;
    Tensor* same = unwrap(leaves.at(item.same_as), item.unwrapped);
    if (!same->node || is_of_graph(same->node)) same->node = taken;
  }
  auto* type = reinterpret_cast<PyTypeObject*>(result.object.get());
  if (type == &PyList_Type) return capture_.list(std::move(items));
  Tuple* result_tuple = capture_.tuple(std::move(items));
  if (type) result_tuple->type = type;
  return result_tuple;
}

}  // namespace gramme::trace
