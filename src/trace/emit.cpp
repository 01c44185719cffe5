// Adds tensor operations to the graph: infers their results, refuses those that cannot be captured, and records writes.
#include <algorithm>

#include "base/imported.h"
#include "base/once.h"
#include "meta/failing.h"
#include "meta/kernels.h"
#include "meta/origin.h"
#include "meta/stand_ins.h"
#include "meta/wrapped.h"
#include "torch/calls.h"
#include "trace/refusals.h"
#include "trace/scope.h"
#include "trace/settings.h"

namespace gramme::trace {

using namespace value;
using meta::Argument;

Value* Scope::emit(PyObject* function, const Args& args) {
  meta::Call call;
  call.kind = meta::Call::Function;
  call.target = capture_.keep(share(function));
  return emit_call(call, args);
}

Value* Scope::emit_remembering(PyObject* function, const Args& args) {
  if (modes_.has_other_dtype()) cannot(Reason::LateEffect, "a gradient after torch.set_default_dtype");
  building_.asks = true;
  try {
    Value* result = emit(function, args);
    building_.asks = false;
    return result;
  } catch (const UserError&) {
    building_.asks = false;
    throw;
  }
}

Value* Scope::emit_method(PyObject* name, const Args& args) {
  if (!args.positional) cannot(Reason::ArgumentKind, "a method whose self has a name");
  meta::Call call;
  call.kind = meta::Call::Method;
  call.target = capture_.keep(share(name));
  return emit_call(call, args);
}

Value* Scope::detached(Value* tensor) {
  static PyObject* const detach = intern("detach");
  return emit_method(detach, Args{&tensor, 1, nullptr, 0});
}

Number* Scope::emit_number(PyObject* function, std::initializer_list<Value*> args, PyTypeObject* type,
                           meta::Interval range, Owned<> example) {
  if (graph_->length() >= capture_.policy.max_nodes) cannot(Reason::Budget, "too many operations");
  meta::Call call;
  call.kind = PyUnicode_Check(function) ? meta::Call::Method : meta::Call::Function;
  call.target = function;
  fill(call, Args{args.begin(), args.size(), nullptr, 0});
  auto* result = capture_.make<Number>();
  result->node = graph_->call(call, capture_.position());
  result->node->number_type = result->type = type;
  result->range = range;
  result->object = capture_.keep(std::move(example));
  return result;
}

graph::Node* Scope::emit_mode(PyObject* function, const std::vector<Argument>& args,
                              const std::vector<std::pair<PyObject*, Argument>>& keywords) {
  meta::Call call;
  call.target = function;
  call.args = sequence_of(Argument::Tuple, args).items;
  call.arg_count = static_cast<uint32_t>(args.size());
  auto* names = static_cast<PyObject**>(capture_.arena.bytes_for(sizeof(PyObject*) * (keywords.size() + 1)));
  std::vector<Argument> by_name;
  for (size_t i = 0; i < keywords.size(); ++i) {
    names[i] = keywords[i].first;
    by_name.push_back(keywords[i].second);
  }
  call.keyword_names = names;
  call.keyword_args = sequence_of(Argument::Tuple, by_name).items;
  call.keyword_count = static_cast<uint32_t>(keywords.size());
  graph::Node* node = graph_->call(call, capture_.position());
  node->effect = true;
  modes_.note_set();
  if (modes_.in_level()) remember(node);
  return node;
}

/// Adds the node to the history from which gradients and tangents inside transforms are inferred.
void Scope::remember(graph::Node* node) {
  if (modes_.is_body_in_level()) return;  // only its operator decides whether this is computed
  history_.add(node, node->call, node->record);
}

/// Handles a call whose inference failed: if it raises with real data too, the program's own exception is raised.
void Scope::fail(const meta::Call& call, const std::string& message) {
  if (!modes_.in_level() && meta::raises_on_zeros(call)) capture_.exceptions.raise_error();
  cannot(Reason::OperatorFailed, message);
}

/// Ends the segment before writes that fail on the real tensors, or that change more than data of tensors sharing
/// memory.
void Scope::refuse_writes(const meta::Call& call, const meta::Outcome& outcome, const std::vector<Tensor*>& leaves,
                          const Args& args) {
  if (!modes_.in_level() && meta::may_not_fit(call, outcome) &&
      meta::raises_on_zeros(call, capture_.shapes.assumptions))
    capture_.exceptions.raise_error();
  for (const meta::Mutation& mutation : outcome.mutations) {
    const meta::Record& shown = *leaves.at(mutation.leaf)->record;
    if (shown.inner && !meta::differ_in_gradients_only(mutation.record, &shown))
      cannot(Reason::MutationUnsupported, "a write inside a transform that changes more than data");
    const meta::Record& before = *meta::physical(&shown);
    for (size_t d = 0; d < before.strides.size(); ++d)
      if (before.strides[d] == 0 && before.sizes[d].number().value_or(2) > 1)
        fail(call, "a write to an expanded tensor");
    if (shown.sizes != mutation.record->sizes && args.keyword("out"))
      cannot(Reason::MutationUnsupported, "an out= argument that is resized");
  }
}

namespace {

/// The numbers that the text of an exception raised by the call may mention.
std::vector<shape::Expr> numbers_in(const meta::Call& call) {
  std::vector<shape::Expr> numbers;
  auto note = [&](shape::SymInt number) {
    if (!number.is_number()) numbers.push_back(number.expr());
    return number;
  };
  meta::each_leaf(call, [&](const Argument& leaf) {
    if (leaf.kind == Argument::Tensor) meta::mapped(leaf.record, note);
    if (leaf.expr) numbers.push_back(leaf.expr);
  });
  return numbers;
}

}  // namespace

static PyObject* getitem() {
  return once([] { return imported("_operator", "getitem").release(); });
}

/// The outcome of a subscript whose indices are all tensors; null for others.
const meta::Outcome* Scope::inferred_by_index(const meta::Call& call) {
  PyObject* const index = once([] {
    Owned<> operators = take(PyObject_GetAttrString(imported("torch", "ops").get(), "aten"));
    return take(PyObject_GetAttrString(take(PyObject_GetAttrString(operators.get(), "index")).get(), "Tensor"))
        .release();
  });
  if (call.target != getitem() || call.arg_count != 2 || call.args[0].kind != Argument::Tensor) return nullptr;
  std::vector<Argument> indices;
  bool tensors = true;
  meta::each_leaf(call.args[1], [&](const Argument& leaf) {
    tensors &= leaf.kind == Argument::Tensor;
    indices.push_back(leaf);
  });
  if (!tensors || indices.empty()) return nullptr;
  meta::Call by_index;
  by_index.target = index;
  by_index.args = sequence_of(Argument::Tuple, {call.args[0], sequence_of(Argument::List, indices)}).items;
  by_index.arg_count = 2;
  return &infer(by_index);
}

/// For `x[key] = value`: the description of the view `x[key]` that is written; null if it is no view.
const meta::Record* Scope::written_part(const meta::Call& call) {
  PyObject* const setitem = once([] { return imported("_operator", "setitem").release(); });
  if (call.target != setitem || call.arg_count != 3) return nullptr;
  meta::Call read;
  read.target = getitem();
  read.args = call.args;
  read.arg_count = 2;
  const meta::Outcome& part = infer(read);
  const bool view = !part.error && part.result.kind == meta::Result::Tensor && part.result.view_of == 0;
  return view ? part.result.record : nullptr;
}

namespace {
/// The outcome of a call on unbacked sizes if it is the same for all their values; else null. Most calls have one. Its
/// pattern is memoised, while a ShapeEnv for the whole capture would run each call anew.
const meta::Outcome* inferred_for_all(Shapes& shapes, const meta::Call& call) {
  meta::StandIns values(shapes.assumptions, [&](shape::Expr symbol) {
    return shapes.source_of(symbol) ? std::optional(shapes.now(symbol)) : std::nullopt;
  });
  const meta::Outcome& outcome = meta::infer(call, {}, &values.assumptions());
  return outcome.error || !values.hold_for_all(outcome) ? nullptr : &outcome;
}
}  // namespace

/// The outcome valid for all sizes that its guards admit, or for the present sizes if none can be expressed for others.
const meta::Outcome& Scope::inferred(meta::Call& call, const Args& args) {
  if (building_.asks) return history_.infer(call, !modes_.in_level());
  if (meta::takes_unbacked(call, capture_.shapes.assumptions)) {
    if (modes_.in_level()) cannot(Reason::UnbackedNumber, "a size below a transform of torch.func");
    const meta::Outcome* for_all = !modes_.has_other_dtype() ? inferred_for_all(capture_.shapes, call) : nullptr;
    return for_all ? *for_all : inferred_of_data(call);
  }
  const meta::Outcome* by_index = building_.by_tensors ? inferred_by_index(call) : nullptr;
  const meta::Outcome* outcome = by_index ? by_index : &infer(call);
  const bool takes_data = capture_.data.shapes || capture_.data.scalars;
  if (outcome->data_dependent && takes_data && !modes_.in_level() && !modes_.has_other_dtype())
    return inferred_of_data(call);
  if (outcome->error && is_symbolic(call)) {
    const bool of_torch = !modes_.in_level() && !outcome->runs_python && !meta::is_of_program(call);
    if (outcome->raised && of_torch && meta::raises_on_zeros(call, capture_.shapes.assumptions)) {
      std::vector<shape::Expr> numbers = numbers_in(call);
      for (const shape::Expr guard : outcome->guards) capture_.shapes.learn(guard, capture_.position());
      capture_.exceptions.raise_error_with(std::move(numbers));
    }
    fix_sizes(call, args);
    outcome = &infer(call);
  }
  for (const shape::Expr guard : outcome->guards) capture_.shapes.learn(guard, capture_.position());
  return *outcome;
}

/// True if autograd may refuse the tensor as a view, or a view of it.
bool Scope::is_special_to_autograd(const Tensor& tensor) const {
  return tensor.special_view || (tensor.existing() && tensor.record->requires_grad && tensor.record->is_leaf);
}

/// True if autograd's own checks, which fakes do not make, would refuse the call: writes to some kinds of views, and
/// uses of such views after another write to their memory.
bool Scope::is_refused(const meta::Outcome& outcome, const std::vector<Tensor*>& leaves) const {
  if (!aten::grad_enabled()) return false;
  const auto written = [&](const meta::Mutation& mutation) {
    return mutation.record->requires_grad && leaves.at(mutation.leaf)->special_view;
  };
  return std::ranges::any_of(outcome.mutations, written) || std::ranges::any_of(leaves, [&](const Tensor* leaf) {
           return leaf->special_view && leaf->record->requires_grad && writes_.is_written_around(leaf);
         });
}

/// True if it matters whether kernels refuse the operands' dtypes: after a write or an effect, or if the backend cannot
/// tell which operation raised.
bool Scope::types_may_be_refused(const meta::Call& call, const meta::Outcome& outcome) {
  const bool matters =
      !capture_.contract.locates || !writes_.empty() || !outcome.mutations.empty() || !capture_.effects().empty();
  if (!matters || !capture_.contract.runs || outcome.tried || outcome.may_raise || outcome.opaque ||
      outcome.runs_python || modes_.in_level())
    return false;
  if (!meta::may_refuse_types(call, outcome)) return false;
  switch (meta::try_on_zeros(call, capture_.shapes.assumptions)) {
    case meta::Tried::Raises:
      capture_.exceptions.raise_error();
    case meta::Tried::Passes:
      outcome.tried = true;
      return false;
    case meta::Tried::Unknown:
      return true;
  }
  return true;
}

namespace {
/// True if inference-mode tensors would be saved for a backward, which autograd refuses.
bool may_be_refused(const std::vector<Tensor*>& leaves) {
  return aten::grad_enabled() &&
         std::ranges::any_of(leaves, [](const Tensor* leaf) { return leaf->record->is_inference; }) &&
         std::ranges::any_of(leaves, [](const Tensor* leaf) { return leaf->record->requires_grad; });
}
}  // namespace

namespace {
/// True if the call runs the code of a tensor wrapper class other than a traceable one; traceable classes only compute.
bool runs_class(const meta::Call& call, const std::vector<Tensor*>& leaves) {
  if (meta::reads_part(call.target)) return false;
  return (PyType_Check(call.target) && meta::is_traceable(reinterpret_cast<PyTypeObject*>(call.target))) ||
         std::ranges::any_of(leaves, [](const Tensor* leaf) { return leaf->record->context; });
}

/// The name of the class whose code the call runs.
std::string class_of(const meta::Call& call, const std::vector<Tensor*>& leaves) {
  const auto found = std::ranges::find_if(leaves, [](const Tensor* leaf) { return leaf->record->context; });
  if (found == leaves.end()) return reinterpret_cast<PyTypeObject*>(call.target)->tp_name;
  return (*found)->record->type->tp_name + std::string(".__torch_dispatch__");
}

/// True if operators that autocast handles decide the dtype of the result, and PyTorch does not infer that.
bool casts_inside(const meta::Call& call) {
  const std::string full = meta::name_of(call);
  const std::string_view name = std::string_view(full).substr(0, full.find('.'));
  if (of_torch::is_call(name, of_torch::CastsInside)) return true;
  bool inference = aten::inference_mode();
  meta::each_leaf(
      call, [&](const Argument& leaf) { inference |= leaf.kind == Argument::Tensor && leaf.record->is_inference; });
  return inference && of_torch::is_call(name, of_torch::CastsInInference);
}

bool takes_inference_tensors(const std::vector<Tensor*>& leaves) {
  return !aten::inference_mode() &&
         std::ranges::any_of(leaves, [](const Tensor* leaf) { return leaf->record->is_inference; });
}
}  // namespace

Value* Scope::emit_call(meta::Call& call, const Args& args) {
  const std::vector<Value*> values = with_numbers(call, args);
  return emit_filled(call, values.empty() ? args : Args{values.data(), args.positional, args.names, args.keywords});
}

void Scope::refuse(const Refusal& row, const meta::Call& call, const meta::Outcome* outcome) {
  switch (row.told) {
    case Told::Nothing:
      cannot(row.reason, row.text);
    case Told::Message:
      if (&row == &refusals::row(refusals::Row::Raises)) fail(call, outcome->message);
      cannot(row.reason, outcome->message);
    case Told::ClassAndMessage:
      cannot(row.reason, class_of(call, building_.leaves) + ", in which " + outcome->message);
    case Told::State:
      cannot(row.reason, std::string(row.text) + late_state_);
    case Told::Seed:
      cannot(row.reason, std::string(row.text) + late_seed_);
  }
  GRAMME_BUG("a refusal that tells nothing");
}

Value* Scope::emit_filled(meta::Call& call, const Args& args) {
  Facts facts;
  facts.add(fact::Breaks, capture_.contract.breaks);
  facts.add(fact::SeenByMode, modes_.in_function_mode());
  facts.add(fact::BeyondBudget, graph_->length() >= capture_.policy.max_nodes);
  if (const Refusal* row = refusals::first<Stage::Operation>(facts)) refuse(*row, call);
  fill_opening(call, args);
  if (!building_.numbers.empty()) specialize_needed(call, args);
  heed_settings(capture_.policy, call);
  facts.add(fact::MethodOfConstant, call.kind == meta::Call::Method && call.args[0].kind == Argument::Constant);
  facts.add(fact::InferredByProgram, capture_.contract.breaks && meta::infers_by_program(call, modes_.in_level()));
  facts.add(fact::CastsInside, aten::autocast_enabled() && casts_inside(call));
  if (const Refusal* row = refusals::first<Stage::Call>(facts)) refuse(*row, call);
  const bool of_numbers = !modes_.in_level() && !modes_.has_other_dtype() && !building_.asks;
  if (is_symbolic(call) && !of_numbers) fix_sizes(call, args);
  const meta::Outcome& outcome = inferred(call, args);
  const std::vector<Tensor*> leaves = building_.leaves;
  const bool wraps = has_classes_ && runs_class(call, leaves);
  const bool python = outcome.runs_python || (!wraps && meta::is_of_program(call));
  const bool refused = !outcome.error && is_refused(outcome, leaves);
  facts.add(fact::RunsClass, wraps);
  facts.add(fact::RunsPython, python);
  facts.add(fact::Error, outcome.error);
  facts.add(fact::Raised, outcome.raised);
  facts.add(fact::DataDependent, outcome.data_dependent);
  facts.add(fact::InferenceTensors, outcome.error && takes_inference_tensors(leaves));
  facts.add(fact::Warns, outcome.warns);
  facts.add(fact::RefusedView, refused);
  facts.add(fact::Random, outcome.random);
  if (const Refusal* row = refusals::first<Stage::Outcome>(facts)) refuse(*row, call, &outcome);
  const bool may_raise = outcome.may_raise || refused || may_be_refused(leaves) ||
                         overlaps_in_part(call, outcome, leaves) || types_may_be_refused(call, outcome);
  if (!outcome.mutations.empty()) writes_.expect_write(outcome, leaves, may_raise, raising(), restorable());
  if (may_raise) expect_raise();
  const bool effects = !capture_.effects().empty();
  facts.add(fact::LateState, late_state_ && (!is_late_ || is_late_()));
  facts.add(fact::LateSeed, late_seed_);
  facts.add(fact::AfterEffects, effects);
  facts.add(fact::HooksHear, effects && aten::saved_tensors_hooked());
  if (const Refusal* row = refusals::first<Stage::Order>(facts)) refuse(*row, call);
  if (python || (writes_.has_python() && may_raise)) writes_.expect_python(!outcome.mutations.empty(), raising());
  if (has_classes_) refuse_classes(outcome, leaves);
  if (has_leaf_views_) refuse_leaf_views(outcome, leaves, python);
  refuse_writes(call, outcome, leaves, args);
  random_ |= outcome.random;
  autograd_seen_ |= aten::grad_enabled();
  const bool overwritten = overwrites(call, leaves);
  graph::Node* node = graph_->call(call, capture_.position());
  node->operators = outcome.operators;
  if (python) writes_.note_python(node);
  node->effect = (call.target != getitem() && !meta::reads_part(call.target)) || may_raise;
  if (building_.asks || modes_.in_level()) {
    size_t i = 0;
    meta::each_leaf(node->call, [&](const Argument& leaf) {
      if (leaf.kind == Argument::Tensor) remembered_[leaf.node] = leaves.at(i++);
    });
    remember(node);
  }
  std::vector<Contents::Write> writes;
  const bool follows_contents =
      capture_.contract.as_is && graph_ == &root_ && !modes_.in_level() && is_in_optimizer(capture_.inliner);
  if (follows_contents && !outcome.mutations.empty())
    writes = contents_.expected(call, leaves, building_.numbers,
                                [this](const Tensor* input) { return writes_.is_written(input); });
  apply_mutations(outcome, leaves, node, overwritten);
  contents_.write(writes);
  writes_.note_done(may_raise);
  Value* result = result_value(outcome.result, node, leaves);
  if (follows_contents)
    contents_.note_made(call, leaves, result, [this](const Tensor* input) { return writes_.is_written(input); });
  for (shape::Expr condition : data_.take_waiting()) assert_true(condition);
  return result;
}

/// Ends the segment at a new leaf that requires a gradient: AOTAutograd knows gradients only from inputs. A view made
/// with grad mode off also claims to be such a leaf. That is harmless to operations with grad mode off, so it is only
/// noted.
void Scope::note_leaf(const meta::Result& result) {
  if (aten::grad_enabled() || result.view_of < 0 || !result.differentiable_view || modes_.in_level())
    cannot(Reason::ReplayUnsupported, "a leaf made by an operation");
  has_leaf_views_ = true;
}

bool Scope::is_leaf_view(const Tensor* tensor) const {
  const bool view = tensor->existing() ? tensor->leaf_view : tensor->differentiable;
  return has_leaf_views_ && view && tensor->record->requires_grad && tensor->record->is_leaf;
}

/// Ends the segment at uses of such views that may involve gradients: with grad mode on, writes, Python that may turn
/// grad mode on.
void Scope::refuse_leaf_views(const meta::Outcome& outcome, const std::vector<Tensor*>& leaves, bool python) const {
  const bool recorded = python || aten::grad_enabled();
  if (recorded && std::any_of(leaves.begin(), leaves.end(), [&](const Tensor* leaf) { return is_leaf_view(leaf); }))
    cannot(Reason::ReplayUnsupported, "a view made with grad mode off, where gradients may be recorded");
  for (const meta::Mutation& mutation : outcome.mutations)
    if (is_leaf_view(leaves.at(mutation.leaf)))
      cannot(Reason::ReplayUnsupported, "a write to a view made with grad mode off");
}

void Scope::apply_mutations(const meta::Outcome& outcome, const std::vector<Tensor*>& leaves, const graph::Node* node,
                            bool overwritten) {
  for (Tensor* leaf : leaves) leaf->used = true;
  for (const meta::Mutation& became : outcome.ragged) {
    Tensor* tensor = leaves.at(became.leaf);
    tensor->record = meta::with_type(became.record, tensor->record->type);
  }
  if (outcome.opaque || !outcome.mutations.empty()) writes_.count_write();
  for (const meta::Mutation& mutation : outcome.mutations) {
    Tensor* tensor = leaves.at(mutation.leaf);
    capture_.confinement.writes(tensor);
    const meta::Record* after = meta::with_type(mutation.record, tensor->record->type);
    const meta::Record* before = std::exchange(tensor->record, after);
    note_written(tensor, before);
    note_input_written(tensor, node, overwritten);
    effects::WriteLedger::note_around(tensor, graph_);
    if (!has_classes_) continue;
    note_parts_written(tensor, node);
    if (before->context != after->context) state<Wrappers>().likenesses.erase(tensor);
  }
  if (outcome.opaque || !outcome.mutations.empty()) data_.forget_data();
  if (!outcome.opaque) return;
  for (Tensor* leaf : leaves) {
    capture_.confinement.writes(leaf);
    note_input_written(leaf, node, false);
    effects::WriteLedger::note_around(leaf, graph_);
  }
}

}  // namespace gramme::trace
