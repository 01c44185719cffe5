// Tensor operations into the graph: arguments, inference, mutation and aliasing of results.
#include "cpython/objects.h"
#include "meta/failing.h"
#include "trace/trace.h"

namespace gramme::trace {

using namespace value;
using meta::Argument;

graph::Node* Trace::node(Tensor* tensor) {
  if (!tensor->node) {
    if (!tensor->existing()) GRAMME_BUG("a tensor without a node or a source");
    tensor->node = graph.placeholder(tensor->source, tensor->record, position());
    inputs_[tensor->node] = tensor->object;
  }
  return tensor->node;
}

graph::Node* Trace::node(Number* number) {
  if (!number->node) {
    number->node = graph.placeholder(number->source, nullptr, position());
    number->node->number_type = number->type;
    inputs_[number->node] = number->object;
  }
  return number->node;
}

namespace {

const Argument* sequence(Trace& trace, Argument& result, const std::vector<Value*>& items) {
  auto* arguments = static_cast<Argument*>(trace.arena.bytes_for(sizeof(Argument) * (items.size() + 1)));
  for (size_t i = 0; i < items.size(); ++i) new (arguments + i) Argument(trace.argument(items[i]));
  result.items = arguments;
  result.count = static_cast<uint32_t>(items.size());
  return arguments;
}

Argument dict_argument(Trace& trace, Dict* dict) {
  trace.load(dict);
  std::vector<Value*> items;
  dict->entries.each([&](Table::Entry& entry) {
    items.push_back(entry.key);
    items.push_back(entry.value);
  });
  Argument result;
  result.kind = Argument::Dict;
  sequence(trace, result, items);
  return result;
}

}  // namespace

Argument Trace::argument(Value* value) {
  Deeper deeper(*this);
  value = see(value);
  Argument result;
  switch (value->kind) {
    case Kind::Tensor: {
      auto* tensor = static_cast<Tensor*>(value);
      if (tensor->late == Tensor::Closed) cannot(Reason::LateEffect, "an operation on a tensor");
      result.kind = Argument::Tensor;
      result.node = node(tensor);
      result.record = tensor->record;
      leaves_.push_back(tensor);
      return result;
    }
    case Kind::Number: {
      auto* number = static_cast<Number*>(value);
      result.kind = Argument::Number;
      result.node = node(number);
      result.object = number->object;
      return result;
    }
    case Kind::Tuple: {
      auto* tuple = static_cast<Tuple*>(value);
      result.kind = Argument::Tuple;
      if (tuple->type != &PyTuple_Type) result.object = reinterpret_cast<PyObject*>(tuple->type);
      sequence(*this, result, tuple->items);
      return result;
    }
    case Kind::List:
      result.kind = Argument::List;
      sequence(*this, result, static_cast<List*>(value)->items);
      return result;
    case Kind::Dict:
      return dict_argument(*this, static_cast<Dict*>(value));
    case Kind::Slice: {
      auto* slice = static_cast<Slice*>(value);
      result.kind = Argument::Slice;
      sequence(*this, result, {slice->start, slice->stop, slice->step});
      return result;
    }
    case Kind::Constant:
    case Kind::Class:
    case Kind::Builtin:
      if (value->kind == Kind::Class && !value->existing())
        cannot(Reason::ArgumentKind, "a class made in the capture as argument of a tensor operation");
      result.object = value->object;
      return result;
    case Kind::Function:
      if (value->source && value->source->kind == source::Kind::Pinned) {
        result.object = value->object;
        return result;
      }
      [[fallthrough]];
    case Kind::Object:
      if (auto* object = as<Object>(value); object && object->payload && object->payload->kind == Kind::Constant)
        return argument(object->payload);  // a member of an IntEnum or StrEnum
      [[fallthrough]];
    default:
      cannot(Reason::ArgumentKind, std::string("a ") + kind_name(value->kind) + " as argument of a tensor operation");
  }
}

namespace {

/// The arguments of a call in the arena.
void fill(Trace& trace, meta::Call& call, const Args& args) {
  auto* all = static_cast<Argument*>(trace.arena.bytes_for(sizeof(Argument) * (args.positional + args.keywords + 1)));
  for (size_t i = 0; i < args.positional + args.keywords; ++i) new (all + i) Argument(trace.argument(args.values[i]));
  call.args = all;
  call.arg_count = static_cast<uint32_t>(args.positional);
  call.keyword_args = all + args.positional;
  call.keyword_count = static_cast<uint32_t>(args.keywords);
  auto** names = static_cast<PyObject**>(trace.arena.bytes_for(sizeof(PyObject*) * (args.keywords + 1)));
  for (size_t i = 0; i < args.keywords; ++i) names[i] = trace.keep(share(args.names[i]));
  call.keyword_names = names;
}

}  // namespace

Value* Trace::emit(PyObject* function, const Args& args) {
  meta::Call call;
  call.kind = meta::Call::Function;
  call.target = keep(share(function));
  return emit_call(call, args);
}

Value* Trace::emit(PyObject* function, std::initializer_list<Value*> args) {
  return emit(function, Args{args.begin(), args.size(), nullptr, 0});
}

Value* Trace::emit_method(PyObject* name, const Args& args) {
  meta::Call call;
  call.kind = meta::Call::Method;
  call.target = keep(share(name));
  return emit_call(call, args);
}

/// A call that raises with data too raises the program's exception: its own, as far as it can be found out.
void Trace::fail(const meta::Call& call, const std::string& message) {
  if (levels.empty() && meta::raises_on_zeros(call)) raise_current();
  cannot(Reason::OperatorFailed, message);
}

/// Writes that fail on the real tensors, or that change what others share with them.
void Trace::refuse_writes(const meta::Call& call, const meta::Outcome& outcome, const std::vector<Tensor*>& leaves,
                          const Args& args) {
  for (const meta::Mutation& mutation : outcome.mutations) {
    const meta::Record& shown = *leaves.at(mutation.leaf)->record;
    if (shown.inner && mutation.record != &shown)
      cannot(Reason::MutationUnsupported, "a write inside torch.vmap that changes more than data");
    const meta::Record& before = *meta::physical(&shown);
    for (size_t d = 0; d < before.strides.size(); ++d)
      if (before.strides[d] == 0 && before.sizes[d] > 1) fail(call, "a write to an expanded tensor");
    if (shown.sizes != mutation.record->sizes && args.keyword("out"))
      cannot(Reason::MutationUnsupported, "an out= argument that is resized");
  }
}

Value* Trace::emit_call(meta::Call& call, const Args& args) {
  if (!function_modes.empty()) cannot(Reason::CallUnknown, "an operation that a torch function mode sees");
  if (graph.length() >= policy.max_nodes) cannot(Reason::Budget, "too many operations");
  leaves_.clear();
  fill(*this, call, args);
  std::vector<Tensor*> leaves = leaves_;
  const meta::Outcome& outcome = infer(call);
  if (outcome.data_dependent) cannot(Reason::DataDependentValue, outcome.message);
  if (outcome.error && outcome.raised) fail(call, outcome.message);
  if (outcome.error) cannot(Reason::CallUnknown, outcome.message);
  if (outcome.may_raise) expect_raise();
  if (late_state_) cannot(Reason::LateEffect, std::string("an operation after ") + late_state_);
  if (late_seed_ && outcome.random) cannot(Reason::LateEffect, std::string("a random operation after ") + late_seed_);
  if (!effects.empty() && aten::saved_tensors_hooked())
    cannot(Reason::LateEffect, "an operation of which hooks of saved tensors hear");
  refuse_writes(call, outcome, leaves, args);
  random |= outcome.random;
  autograd_seen |= aten::grad_enabled();
  const bool overwritten = overwrites(call, leaves);
  graph::Node* node = graph.call(call, position());
  static PyObject* getitem = PyObject_GetAttrString(take(PyImport_ImportModule("_operator")).get(), "getitem");
  node->effect = call.target != getitem || outcome.may_raise;
  apply_mutations(outcome, leaves, overwritten);
  if (outcome.may_raise) note_raised_write();
  return result_value(outcome.result, node, leaves);
}

void Trace::apply_mutations(const meta::Outcome& outcome, const std::vector<Tensor*>& leaves, bool overwritten) {
  for (Tensor* leaf : leaves) leaf->used = true;
  for (const meta::Mutation& mutation : outcome.mutations) {
    Tensor* tensor = leaves.at(mutation.leaf);
    bool gained = mutation.record->requires_grad && !tensor->record->requires_grad;
    tensor->record = mutation.record;
    note_written(tensor, gained);
    note_input_written(tensor, overwritten);
  }
}

namespace {

/// What a tensor inside torch.vmap wraps. It is a value of its own once a call gives it out.
Tensor* unwrap(Trace& trace, Tensor* tensor, int levels) {
  for (; levels > 0; --levels) {
    if (!tensor->inner) {
      auto* inner = tensor->inner = trace.make<Tensor>();
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

}  // namespace

Value* Trace::result_value(const meta::Result& result, graph::Node* node, const std::vector<Tensor*>& leaves) {
  switch (result.kind) {
    case meta::Result::Constant:
      return result.object ? adopt(result.object) : none_;
    case meta::Result::Number: {
      auto* number = make<Number>();
      number->node = node;
      number->type = reinterpret_cast<PyTypeObject*>(result.object.get());
      node->number_type = number->type;
      number->object = keep(take(PyObject_CallOneArg(result.object.get(), take(PyLong_FromLong(2)).get())));
      return number;
    }
    case meta::Result::Tensor: {
      node->record = result.record;
      if (result.same_as >= 0) {
        // What returns its input unwritten is passed by: functionalizing backends lose a write to its result.
        Tensor* same = unwrap(*this, leaves.at(result.same_as), result.unwrapped);
        if (!same->node || (!same->used && !result.unwrapped)) same->node = node;
        return same;
      }
      auto* tensor = make<Tensor>();
      tensor->node = node;
      tensor->record = result.record;
      tensor->made_at = inliner ? inliner->steps() : 0;
      if (result.wraps_leaf >= 0)
        unwrap(*this, tensor, result.wraps_at - 1)->inner =
            unwrap(*this, leaves.at(result.wraps_leaf), result.wraps_unwrapped);
      if (result.view_of < 0) return tensor;
      tensor->base = leaves.at(result.view_of);
      tensor->differentiable = result.differentiable_view;
      if (tensor->differentiable) tensor->base->views.push_back(tensor);
      return tensor;
    }
    case meta::Result::Sequence:
      break;
  }
  std::vector<Value*> items;
  static PyObject* getitem = PyObject_GetAttrString(take(PyImport_ImportModule("_operator")).get(), "getitem");
  for (size_t i = 0; i < result.items.size(); ++i) {
    const meta::Result& item = result.items[i];
    if (item.kind == meta::Result::Constant) {
      items.push_back(result_value(item, node, leaves));
      continue;
    }
    meta::Call call;
    call.target = getitem;
    auto* arguments = static_cast<Argument*>(arena.bytes_for(sizeof(Argument) * 2));
    new (arguments) Argument();
    arguments[0].kind = Argument::Tensor;
    arguments[0].node = node;
    new (arguments + 1) Argument();
    arguments[1].object = keep(take(PyLong_FromSize_t(i)));
    call.args = arguments;
    call.arg_count = 2;
    graph::Node* taken = graph.call(call, position());
    items.push_back(result_value(item, taken, leaves));
    if (item.same_as >= 0) unwrap(*this, leaves.at(item.same_as), item.unwrapped)->node = taken;
  }
  auto* type = reinterpret_cast<PyTypeObject*>(result.object.get());
  if (type == &PyList_Type) return list(std::move(items));
  Tuple* result_tuple = tuple(std::move(items));
  if (type) result_tuple->type = type;
  return result_tuple;
}

}  // namespace gramme::trace
