// Tensor operations into the graph: arguments, inference, mutation and aliasing of results.
#include "base/once.h"
#include "cpython/objects.h"
#include "meta/failing.h"
#include "meta/numbers.h"
#include "trace/scope.h"

namespace gramme::trace {

using namespace value;
using meta::Argument;

graph::Node* Scope::node(Tensor* tensor) {
  if (!tensor->node) {
    if (!tensor->existing()) GRAMME_BUG("a tensor without a node or a source");
    tensor->node = graph_.placeholder(tensor->source, tensor->record, capture_.position());
    inputs_[tensor->node] = tensor->object;
  }
  return tensor->node;
}

namespace {

const Argument* sequence(Scope& scope, Arena& arena, Argument& result, const std::vector<Value*>& items) {
  auto* arguments = static_cast<Argument*>(arena.bytes_for(sizeof(Argument) * (items.size() + 1)));
  for (size_t i = 0; i < items.size(); ++i) new (arguments + i) Argument(scope.argument(items[i]));
  result.items = arguments;
  result.count = static_cast<uint32_t>(items.size());
  return arguments;
}

Argument dict_argument(Scope& scope, Arena& arena, Dict* dict) {
  std::vector<Value*> items;
  dict->entries.each([&](Table::Entry& entry) {
    items.push_back(entry.key);
    items.push_back(entry.value);
  });
  Argument result;
  result.kind = Argument::Dict;
  sequence(scope, arena, result, items);
  return result;
}

}  // namespace

Argument Scope::argument(Value* value) {
  Capture::Deeper deeper(capture_);
  value = capture_.see(value);
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
      result.bound = number->bound;
      numbers_.push_back(number);
      return result;
    }
    case Kind::Tuple: {
      auto* tuple = static_cast<Tuple*>(value);
      result.kind = Argument::Tuple;
      if (tuple->type != &PyTuple_Type) result.object = reinterpret_cast<PyObject*>(tuple->type);
      sequence(*this, capture_.arena, result, tuple->items);
      return result;
    }
    case Kind::List:
      result.kind = Argument::List;
      sequence(*this, capture_.arena, result, static_cast<List*>(value)->items());
      return result;
    case Kind::Dict:
      capture_.load(static_cast<Dict*>(value));
      return dict_argument(*this, capture_.arena, static_cast<Dict*>(value));
    case Kind::Slice: {
      auto* slice = static_cast<Slice*>(value);
      result.kind = Argument::Slice;
      sequence(*this, capture_.arena, result, {slice->start, slice->stop, slice->step});
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
    case Kind::Lazy:
    case Kind::Set:
    case Kind::Deque:
    case Kind::View:
    case Kind::Iterator:
    case Kind::Generator:
    case Kind::Cell:
    case Kind::Method:
    case Kind::BuiltinMethod:
    case Kind::Module:
    case Kind::Namespace:
    case Kind::InstanceDict:
    case Kind::Partial:
    case Kind::Super:
    case Kind::Null:
      cannot(Reason::ArgumentKind, std::string("a ") + kind_name(value->kind) + " as argument of a tensor operation");
  }
  GRAMME_BUG("a value of no kind");
}

/// The arguments of a call in the arena.
void Scope::fill(meta::Call& call, const Args& args) {
  leaves_.clear();
  numbers_.clear();
  auto* all =
      static_cast<Argument*>(capture_.arena.bytes_for(sizeof(Argument) * (args.positional + args.keywords + 1)));
  for (size_t i = 0; i < args.positional + args.keywords; ++i) new (all + i) Argument(argument(args.values[i]));
  call.args = all;
  call.arg_count = static_cast<uint32_t>(args.positional);
  call.keyword_args = all + args.positional;
  call.keyword_count = static_cast<uint32_t>(args.keywords);
  auto** names = static_cast<PyObject**>(capture_.arena.bytes_for(sizeof(PyObject*) * (args.keywords + 1)));
  for (size_t i = 0; i < args.keywords; ++i) names[i] = capture_.keep(share(args.names[i]));
  call.keyword_names = names;
}

/// The numbers on which the call's Outcome depends become constants.
void Scope::specialize_needed(meta::Call& call, const Args& args) {
  std::vector<Number*> numbers = numbers_;
  size_t at = 0;
  bool needed = false;
  meta::each_number(call, [&](const Argument&, bool depends) {
    Number* number = numbers.at(at++);
    if (!depends) return;
    if (number->kind == Kind::Number && !specialize(number))
      cannot(Reason::DataDependentValue, "a number computed from a tensor");
    needed = true;
  });
  if (needed) fill(call, args);
}

Value* Scope::emit(PyObject* function, const Args& args) {
  meta::Call call;
  call.kind = meta::Call::Function;
  call.target = capture_.keep(share(function));
  return emit_call(call, args);
}

Value* Scope::emit_method(PyObject* name, const Args& args) {
  meta::Call call;
  call.kind = meta::Call::Method;
  call.target = capture_.keep(share(name));
  return emit_call(call, args);
}

Number* Scope::emit_number(PyObject* function, std::initializer_list<Value*> args, PyTypeObject* type, double bound,
                           Owned<> example) {
  if (graph_.length() >= capture_.policy.max_nodes) cannot(Reason::Budget, "too many operations");
  meta::Call call;
  call.target = function;
  fill(call, Args{args.begin(), args.size(), nullptr, 0});
  auto* result = capture_.make<Number>();
  result->node = graph_.call(call, capture_.position());
  result->node->number_type = result->type = type;
  result->bound = bound;
  result->object = capture_.keep(std::move(example));
  return result;
}

graph::Node* Scope::emit_mode(PyObject* function, const std::vector<Argument>& args) {
  meta::Call call;
  call.target = function;
  auto* copies = static_cast<Argument*>(capture_.arena.bytes_for(sizeof(Argument) * (args.size() + 1)));
  std::uninitialized_copy(args.begin(), args.end(), copies);
  call.args = copies;
  call.arg_count = static_cast<uint32_t>(args.size());
  graph::Node* node = graph_.call(call, capture_.position());
  node->effect = true;
  sets_modes_ = true;
  return node;
}

/// A call that raises with data too raises the program's exception: its own, as far as it can be found out.
void Scope::fail(const meta::Call& call, const std::string& message) {
  if (levels_.empty() && meta::raises_on_zeros(call)) capture_.raise_current();
  cannot(Reason::OperatorFailed, message);
}

/// Writes that fail on the real tensors, or that change what others share with them.
void Scope::refuse_writes(const meta::Call& call, const meta::Outcome& outcome, const std::vector<Tensor*>& leaves,
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

namespace {

/// Is it a Python function that the program put in graphs (torch.compiler.allow_in_graph)?
bool is_of_program(const meta::Call& call) {
  static PyObject* const key = intern("__name__");
  if (call.kind != meta::Call::Function || !PyFunction_Check(call.target)) return false;
  PyObject* module = PyDict_GetItemWithError(PyFunction_GET_GLOBALS(call.target), key);
  const char* name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
  const std::string_view text = name ? name : "";
  return text != "torch" && !text.starts_with("torch.");
}

/// AOTAutograd cannot save what oneDNN's LSTM gives in place of its workspace; PyTorch's front end does not capture it.
bool is_lstm(const meta::Call& call) {
  return PyCFunction_Check(call.target) &&
         std::string_view(reinterpret_cast<PyCFunctionObject*>(call.target)->m_ml->ml_name) == "lstm";
}

}  // namespace

Value* Scope::emit_call(meta::Call& call, const Args& args) {
  if (!function_modes_.empty()) cannot(Reason::CallUnknown, "an operation that a torch function mode sees");
  if (graph_.length() >= capture_.policy.max_nodes) cannot(Reason::Budget, "too many operations");
  fill(call, args);
  if (!numbers_.empty()) specialize_needed(call, args);
  if (call.kind == meta::Call::Method && call.args[0].kind == Argument::Constant)
    cannot(Reason::ArgumentKind, "a tensor operation as a method of a constant");  // torch.fx writes 1.__rsub__(x)
  if (!capture_.policy.locates && !capture_.policy.whole && aten::grad_enabled() && is_lstm(call))
    cannot(Reason::CallSkipped, "torch.lstm");
  std::vector<Tensor*> leaves = leaves_;
  const meta::Outcome& outcome = infer(call);
  if (outcome.data_dependent) cannot(Reason::DataDependentValue, outcome.message);
  if (outcome.error && outcome.raised) fail(call, outcome.message);
  if (outcome.error) cannot(Reason::CallUnknown, outcome.message);
  expect_write(outcome, leaves);
  if (outcome.may_raise) expect_raise();
  if (late_state_) cannot(Reason::LateEffect, std::string("an operation after ") + late_state_);
  if (late_seed_ && outcome.random) cannot(Reason::LateEffect, std::string("a random operation after ") + late_seed_);
  if (!capture_.effects().empty() && aten::saved_tensors_hooked())
    cannot(Reason::LateEffect, "an operation of which hooks of saved tensors hear");
  if (!capture_.policy.whole && !capture_.effects().empty() && (outcome.runs_python || is_of_program(call)))
    cannot(Reason::LateEffect, "an operator in Python, which may look at what the program has written");
  refuse_writes(call, outcome, leaves, args);
  random_ |= outcome.random;
  autograd_seen_ |= aten::grad_enabled();
  const bool overwritten = overwrites(call, leaves);
  graph::Node* node = graph_.call(call, capture_.position());
  PyObject* const getitem =
      once([] { return PyObject_GetAttrString(take(PyImport_ImportModule("_operator")).get(), "getitem"); });
  node->operators = outcome.operators;
  node->effect = call.target != getitem || outcome.may_raise;
  apply_mutations(outcome, leaves, node, overwritten);
  if (outcome.may_raise || caught_) restored_ = writes_.size();
  return result_value(outcome.result, node, leaves);
}

void Scope::apply_mutations(const meta::Outcome& outcome, const std::vector<Tensor*>& leaves, const graph::Node* node,
                            bool overwritten) {
  for (Tensor* leaf : leaves) leaf->used = true;
  for (const meta::Mutation& mutation : outcome.mutations) {
    Tensor* tensor = leaves.at(mutation.leaf);
    bool gained = mutation.record->requires_grad && !tensor->record->requires_grad;
    tensor->record = mutation.record;
    note_written(tensor, gained);
    note_input_written(tensor, node, overwritten);
  }
  if (outcome.opaque)
    for (Tensor* leaf : leaves) note_input_written(leaf, node, false);
}

/// What a tensor inside torch.vmap wraps. It is a value of its own once a call gives it out.
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

Value* Scope::result_value(const meta::Result& result, graph::Node* node, const std::vector<Tensor*>& leaves) {
  switch (result.kind) {
    case meta::Result::Constant:
      return result.object ? capture_.adopt(result.object) : capture_.none();
    case meta::Result::Number: {
      auto* number = capture_.make<Number>();
      number->node = node;
      number->type = reinterpret_cast<PyTypeObject*>(result.object.get());
      node->number_type = number->type;
      number->object = capture_.keep(take(PyObject_CallOneArg(result.object.get(), take(PyLong_FromLong(2)).get())));
      return number;
    }
    case meta::Result::Tensor: {
      node->record = result.record;
      if (result.same_as >= 0) {
        // What returns its input unwritten is passed by: functionalizing backends lose a write to its result.
        Tensor* same = unwrap(leaves.at(result.same_as), result.unwrapped);
        if (!same->node || (!same->used && !result.unwrapped)) same->node = node;
        return same;
      }
      auto* tensor = capture_.make<Tensor>();
      tensor->node = node;
      tensor->record = result.record;
      tensor->made_at = capture_.steps();
      if (result.wraps_leaf >= 0)
        unwrap(tensor, result.wraps_at - 1)->inner = unwrap(leaves.at(result.wraps_leaf), result.wraps_unwrapped);
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
  PyObject* const getitem =
      once([] { return PyObject_GetAttrString(take(PyImport_ImportModule("_operator")).get(), "getitem"); });
  for (size_t i = 0; i < result.items.size(); ++i) {
    const meta::Result& item = result.items[i];
    if (item.kind == meta::Result::Constant) {
      items.push_back(result_value(item, node, leaves));
      continue;
    }
    meta::Call call;
    call.target = getitem;
    auto* arguments = static_cast<Argument*>(capture_.arena.bytes_for(sizeof(Argument) * 2));
    new (arguments) Argument();
    arguments[0].kind = Argument::Tensor;
    arguments[0].node = node;
    new (arguments + 1) Argument();
    arguments[1].object = capture_.keep(take(PyLong_FromSize_t(i)));
    call.args = arguments;
    call.arg_count = 2;
    graph::Node* taken = graph_.call(call, capture_.position());
    items.push_back(result_value(item, taken, leaves));
    if (item.same_as >= 0) unwrap(leaves.at(item.same_as), item.unwrapped)->node = taken;
  }
  auto* type = reinterpret_cast<PyTypeObject*>(result.object.get());
  if (type == &PyList_Type) return capture_.list(std::move(items));
  Tuple* result_tuple = capture_.tuple(std::move(items));
  if (type) result_tuple->type = type;
  return result_tuple;
}

}  // namespace gramme::trace
