// Ints and floats that vary from call to call: which are taken as inputs of the graph, and what happens when the
// capture must know one after all.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>

#include "base/imported.h"
#include "base/once.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "meta/functions.h"
#include "meta/predicate.h"
#include "shape/lower.h"
#include "source/constant.h"
#include "trace/scope.h"

namespace gramme::trace {

using namespace value;
using meta::Argument;
using shape::Expr;
using SK = source::Kind;

bool may_vary(const Source* source) {
  SK root = source->root()->kind;
  return root == SK::Local || root == SK::Stack || root == SK::Function;
}

namespace {

/// Was it another one at an earlier capture?
bool has_changed(const Policy& policy, PyObject* object, const Source* source) {
  if (policy.dynamic.contains(source->path)) return true;
  auto known = policy.numbers.find(source->path);
  return known != policy.numbers.end() && Py_TYPE(known->second.get()) == Py_TYPE(object) &&
         !source::same_constant(known->second.get(), object);
}

/// Is the source, or a dimension of the tensor at it, in the list?
bool is_named(const std::vector<NamedSource>& list, const Source* source, std::optional<size_t> dim = std::nullopt) {
  if (list.empty()) return false;
  Owned<> name = take(PyUnicode_FromString(source->print().c_str()));
  return std::ranges::any_of(list, [&](const NamedSource& named) {
    if (dim && named.dim && *named.dim != *dim) return false;
    return take(PyObject_CallMethod(named.pattern.get(), "match", "O", name.get())).get() != Py_None;
  });
}

/// An int must be known to be narrow: what is computed from it must stay within 64 bits.
bool can_be_input(PyObject* object) { return PyFloat_CheckExact(object) || source::is_narrow(object); }

}  // namespace

bool Capture::is_known_constant(const Source* source) const {
  return policy.specialized.contains(source->path) || policy.fixed.contains(source->path) ||
         std::find(specialized_.begin(), specialized_.end(), source) != specialized_.end();
}

/// A float on the stack is what an instruction carried out for real has just computed: it will be another one next
/// time.
bool Capture::varies(PyObject* object, const Source* source) const {
  if (!can_be_input(object)) return false;
  if (source->kind == SK::Stack && PyFloat_CheckExact(object)) return true;
  if (!may_vary(source) || (PyLong_CheckExact(object) && !policy.whole_numbers_vary)) return false;
  if (has_changed(policy, object, source)) return true;
  if (!PyLong_CheckExact(object)) return false;
  if (policy.all_dynamic && (policy.module_numbers_vary || !is_below_module(source))) return true;
  return is_named(policy.named_dynamic, source) || is_named(policy.named_unbacked, source) ||
         policy.dynamic_values.contains(PyLong_AsLongLong(object));
}

/// Those of modules (strides, paddings) are the same at each call as a rule.
bool Capture::is_below_module(const Source* source) const {
  for (; source; source = source->base)
    if (modules_.contains(source)) return true;
  return false;
}

/// A constant, unless it changed since an earlier capture.
Value* Capture::number(PyObject* object, const Source* source) {
  if (!varies(object, source) || is_known_constant(source)) {
    guard({source, guards::Kind::Constant, share(object)});
    return make<Constant>(source, object);
  }
  bool narrow = source::is_narrow(object);
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  guard({source, narrow ? guards::Kind::Narrow : guards::Kind::Type, share(type)});
  dynamic_.push_back(source);
  constexpr auto kMost = static_cast<int64_t>(source::kNarrow);
  if (policy.symbolic && narrow && is_named(policy.named_unbacked, source))
    return expression(shapes.add(source, {-kMost, kMost}, PyLong_AsLongLong(object), true));
  auto* result = make<Number>(source, object);
  result->type = Py_TYPE(object);
  if (narrow) result->range = meta::Interval::around_zero(source::kNarrow);
  if (policy.symbolic && PyLong_CheckExact(object))
    result->expr = shapes.add(source, {-kMost, kMost}, PyLong_AsLongLong(object));
  return result;
}

bool is_of_module(const meta::Record* record, const Source* source) {
  static PyObject* const buffers = intern("_buffers");
  static PyObject* const parameters = intern("_parameters");
  if (std::string_view(record->type->tp_name) == "Parameter") return true;
  for (; source; source = source->base)
    if (source->key && (source->key.get() == buffers || source->key.get() == parameters)) return true;
  return false;
}

namespace {

/// What torch._dynamo.mark_dynamic and the like have written on a tensor.
class Marks {
 public:
  explicit Marks(PyObject* tensor) {
    static PyObject* const dynamic = intern("_dynamo_dynamic_indices");
    static PyObject* const weak = intern("_dynamo_weak_dynamic_indices");
    static PyObject* const stays = intern("_dynamo_static_indices");
    static PyObject* const ranges = intern("_dynamo_dynamic_range");
    static PyObject* const unbacked = intern("_dynamo_unbacked_indices");
    static PyObject* const strict = intern("_dynamo_strict_unbacked_indices");
    static PyObject* const special = intern("_specialize_on");
    static PyObject* const bounds = intern("_dynamo_unbacked_bounds");
    static PyObject* const ids = intern("_dynamo_shape_ids");
    cpython::instance_attribute(tensor, dynamic, &dynamic_);
    cpython::instance_attribute(tensor, weak, &weak_);
    cpython::instance_attribute(tensor, stays, &static_);
    cpython::instance_attribute(tensor, unbacked, &unbacked_);
    cpython::instance_attribute(tensor, strict, &strict_);
    cpython::instance_attribute(tensor, ranges, &ranges_);
    cpython::instance_attribute(tensor, special, &special_);
    cpython::instance_attribute(tensor, bounds, &bounds_);
    cpython::instance_attribute(tensor, ids, &ids_);
  }
  bool any() const { return dynamic_ || weak_ || unbacked_ || strict_; }
  bool is_unbacked(size_t d) const { return holds(unbacked_, d) || holds(strict_, d); }
  bool must_vary(size_t d) const { return holds(dynamic_, d); }
  bool is_dynamic(size_t d) const { return must_vary(d) || holds(weak_, d); }
  bool is_static(size_t d) const { return !must_vary(d) && holds(static_, d); }

  /// What the program said of the size, at least that it is one.
  shape::Range range(size_t d, int64_t now) const {
    shape::Range result{1, shape::Range::kNoHigh};
    Owned<> rows = ranges_ ? take(PySequence_Fast(ranges_, "a set of ranges")) : Owned<>();
    for (Py_ssize_t i = 0; rows && i < PySequence_Fast_GET_SIZE(rows.get()); ++i) {
      PyObject* row = PySequence_Fast_GET_ITEM(rows.get(), i);
      Owned<> dim = take(PyObject_GetAttrString(row, "dim")), least = take(PyObject_GetAttrString(row, "min")),
              most = take(PyObject_GetAttrString(row, "max"));
      if (PyLong_AsSize_t(dim.get()) != d) continue;
      if (PyLong_Check(least.get())) result.low = std::max<int64_t>(result.low, PyLong_AsLongLong(least.get()));
      if (PyLong_Check(most.get())) result.high = PyLong_AsLongLong(most.get());
    }
    const bool fits = result.low <= now && now <= result.high;
    return fits ? result : shape::Range{1, shape::Range::kNoHigh};
  }

  /// Functions of the size: where one answers anew, the size has a segment of its own.
  Owned<> specializations(size_t d) const {
    PyObject* list = row(special_, d);
    return list ? take(PySequence_Fast(list, "a list of functions")) : take(PyTuple_New(0));
  }

  /// What torch._dynamo.decorators.mark_unbacked said of the size.
  shape::Range unbacked_range(size_t d) const {
    shape::Range result{0, shape::Range::kNoHigh};
    PyObject* pair = row(bounds_, d);
    if (!pair || !PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2) return result;
    if (PyObject* least = PyTuple_GET_ITEM(pair, 0); PyLong_Check(least))
      result.low = std::max<int64_t>(0, PyLong_AsLongLong(least));
    if (PyObject* most = PyTuple_GET_ITEM(pair, 1); PyLong_Check(most)) result.high = PyLong_AsLongLong(most);
    return result;
  }
  /// Sizes of one id are one number; null: it has none.
  PyObject* shape_id(size_t d) const { return row(ids_, d); }

 private:
  /// Of a dict by dimension, borrowed; null if there is none.
  static PyObject* row(PyObject* dict, size_t d) {
    if (!dict || !PyDict_CheckExact(dict)) return nullptr;
    return PyDict_GetItemWithError(dict, take(PyLong_FromSize_t(d)).get());
  }
  static bool holds(PyObject* set, size_t d) {
    if (!set || !PyAnySet_Check(set)) return false;
    return PySet_Contains(set, take(PyLong_FromSize_t(d)).get()) == 1;
  }

  PyObject *dynamic_ = nullptr, *weak_ = nullptr, *static_ = nullptr, *ranges_ = nullptr, *special_ = nullptr,
           *unbacked_ = nullptr, *strict_ = nullptr, *bounds_ = nullptr, *ids_ = nullptr;
};

[[noreturn]] void refuse_mark(const Source* size, int64_t now, const std::string& said) {
  const std::string text = "Constraints violated (" + size->print() + ")! It was marked as " + said + ", but it is " +
                           std::to_string(now) + ".\nPass another size, or mark it otherwise.";
  PyErr_SetString(imported("torch.fx.experimental.symbolic_shapes", "ConstraintViolationError").get(), text.c_str());
  throw PythonError();
}

}  // namespace

/// Asks what torch._dynamo.mark_dynamic was told to tell apart. Is the size one number then?
bool Capture::decide_special(const Owned<>& predicates, shape::Expr size) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(predicates.get()); ++i)
    for (Expr condition : meta::conditions_of(PySequence_Fast_GET_ITEM(predicates.get(), i), size, shapes.assumptions))
      decide(condition);
  return is_constant(shapes.assumptions.simplified(size));
}

shape::Expr Capture::unbacked_size(const Source* size, shape::Range range, int64_t now, PyObject* id) {
  if (now < range.low || now > range.high)
    refuse_mark(size, now,
                "unbacked, at least " + std::to_string(range.low) +
                    (range.high == shape::Range::kNoHigh ? "" : " and at most " + std::to_string(range.high)));
  if (!id || !PyUnicode_Check(id)) return shapes.add(size, range, now, true);
  const auto [known, is_new] = sizes_by_id_.try_emplace(utf8_of(id), nullptr);
  if (is_new) return known->second = shapes.add(size, range, now, true);
  const int64_t other = shapes.now(known->second);
  if (now != other) refuse_mark(size, now, "equal to " + shapes.print(known->second) + ", " + std::to_string(other));
  return known->second;
}

/// Null for those that stay: what changed since an earlier capture is a symbol; 0 and 1 are numbers, unless nothing is
/// to be known of the size.
std::vector<shape::Expr> Capture::varying_sizes(PyObject* object, const meta::Record* record, const Source* source) {
  if (!policy.symbolic || record->sizes.empty() || record->inner) return {};
  if (record->strides.size() != record->sizes.size()) return {};
  const Marks marks(object);
  const bool named = is_named(policy.named_dynamic, source), unbacked = is_named(policy.named_unbacked, source);
  const bool by_value = !policy.dynamic_values.empty() && !is_of_module(record, source);
  if (!marks.any() && !named && !unbacked && !by_value && !may_vary(source)) return {};
  const auto before = policy.sizes.find(source->path);
  const bool seen = policy.automatic && may_vary(source) && before != policy.sizes.end();
  const bool other_rank = seen && before->second.size() != record->sizes.size();
  const bool all = other_rank || (policy.all_dynamic && !is_of_module(record, source));
  bool any = false;
  std::vector<shape::Expr> sizes(record->sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t now = meta::known(record->sizes[d]);
    const Source* size = pool->child(source, SK::SizeOf, static_cast<int64_t>(d));
    const bool changed = all || (named && is_named(policy.named_dynamic, source, d)) ||
                         (by_value && policy.dynamic_values.contains(now)) ||
                         (seen && (policy.dynamic.contains(size->path) || before->second[d] != now));
    if (changed) dynamic_.push_back(size);
    if ((marks.is_unbacked(d) || (unbacked && is_named(policy.named_unbacked, source, d))) &&
        !is_known_constant(size)) {
      sizes[d] = unbacked_size(size, marks.unbacked_range(d), now, marks.shape_id(d));
      any = true;
      continue;
    }
    if (now < 2 || marks.is_static(d) || is_known_constant(size)) continue;
    if (marks.is_dynamic(d)) {
      sizes[d] = shapes.add(size, marks.range(d, now), now);
      const bool special = decide_special(marks.specializations(d), sizes[d]);
      if (marks.must_vary(d) && !special) shapes.insist(size);
    } else if (changed) {
      shape::Expr known = policy.all_dynamic ? shapes.equal_now(now) : nullptr;
      sizes[d] = known ? known : shapes.add(size, {1, shape::Range::kNoHigh}, now);
    }
    any |= sizes[d] != nullptr;
  }
  return any ? sizes : std::vector<shape::Expr>();
}

bool Capture::was_needed(Expr e) const {
  if (e->kind == shape::Kind::Symbol) {
    const Source* source = shapes.source_of(e);
    return source && policy.times_fixed.contains(source->path);
  }
  return std::any_of(e->operands.begin(), e->operands.end(),
                     [this](const shape::Operand& operand) { return was_needed(operand.of); });
}

namespace {

/// What the program has for the word.
Owned<> object_of(shape::Type type, int64_t word) {
  if (type == shape::Type::Bool) return share(word ? Py_True : Py_False);
  return take(type == shape::Type::Int ? PyLong_FromLongLong(word) : PyFloat_FromDouble(shape::as_float(word)));
}

/// What stands for a value that only data can tell.
Owned<> example_of(shape::Type type) {
  return object_of(type, type == shape::Type::Float ? shape::as_word(2.0) : type == shape::Type::Bool ? 1 : 2);
}

}  // namespace

Value* Capture::expression(shape::Expr e) {
  e = shapes.assumptions.simplified(e);
  const std::optional<int64_t> now = shapes.assumptions.hint(e);
  const bool unbacked = shapes.assumptions.is_unbacked(e);
  if (!now && !unbacked) cannot(Reason::DataDependentValue, "a number without a value");
  Owned<> object = unbacked ? example_of(e->type) : object_of(e->type, *now);
  if (is_constant(e)) return constant(std::move(object));
  auto* result = make<Number>();
  result->object = keep(std::move(object));
  result->type = Py_TYPE(result->object);
  result->expr = e;
  if (e->type == shape::Type::Int) {
    const shape::Range range = shapes.assumptions.range(e);
    const bool bounded = range.low != shape::Range::kNoLow && range.high != shape::Range::kNoHigh;
    if (bounded) result->range = {static_cast<double>(range.low), static_cast<double>(range.high)};
  }
  return result;
}

void Capture::note_specialized(const Number* number) {
  guard({number->source, guards::Kind::Constant, share(number->object)});
  specialized_.push_back(number->source);
}

graph::Node* Scope::node(Number* number) {
  const bool computed = number->function || number->expr;  // anew in each body that takes it
  if (number->node && (!computed || is_of_graph(number->node))) return here(number->node);
  if (number->function) return number->node = first_of(number, computed_node(number));
  if (number->expr) return number->node = node(number->expr);
  number->node = root_.placeholder(number->source, nullptr, capture_.position());
  number->node->number_type = number->type;
  inputs_[number->node] = number->object;
  number_inputs_[number->node] = number;
  return here(number->node);
}

/// By what the program computed it.
graph::Node* Scope::computed_node(Number* number) {
  if (graph_->length() >= capture_.policy.max_nodes) cannot(Reason::Budget, "too many operations");
  auto* args = static_cast<Argument*>(capture_.arena.bytes_for(sizeof(Argument) * 2));
  meta::Call call;
  call.kind = PyUnicode_Check(number->function) ? meta::Call::Method : meta::Call::Function;
  call.target = number->function;
  call.args = args;
  const size_t before = numbers_.size();  // those of the call that takes the number
  for (Value* operand : number->operands)
    if (operand) new (args + call.arg_count++) Argument(argument(operand));
  numbers_.resize(before);
  graph::Node* node = graph_->call(call, capture_.position());
  node->number_type = number->type;
  return node;
}

/// The first node with the number's value: what is computed twice stands in the graph once.
graph::Node* Scope::first_of(const Number* number, graph::Node* made) {
  if (!number->expr) return made;
  const Expr e = capture_.shapes.assumptions.simplified(number->expr);
  if (is_constant(e)) return made;
  if (e->kind == shape::Kind::Symbol) return here(symbol_node(e));
  Argument computed;
  computed.kind = Argument::Number;
  computed.node = made;
  computed.object = number->object;
  return computed_[graph_].try_emplace(e, computed).first->second.node;
}

void Scope::skip_name(PyObject* function) {
  meta::Call call;
  call.kind = PyUnicode_Check(function) ? meta::Call::Method : meta::Call::Function;
  call.target = function;
  graph_->skip_name(call);
}

void Scope::note_sizes(Tensor* tensor, size_t items) {
  if (!tensor->node && !tensor->existing()) return;  // replay makes it
  if (!capture_.shapes.simplified(tensor->record)->symbolic) return;
  static PyObject* const size = intern("size");
  PyObject* const getitem = once([] { return imported("_operator", "getitem").release(); });
  node(tensor);
  skip_name(size);
  for (size_t i = 0; i < items; ++i) skip_name(getitem);
}

graph::Node* Scope::symbol_node(shape::Expr symbol) {
  graph::Node*& known = symbol_nodes_[symbol];
  if (known) return known;
  if (!capture_.shapes.source_of(symbol)) GRAMME_BUG("a number out of data that no node gives");
  known = root_.placeholder(capture_.shapes.source_of(symbol), nullptr, capture_.position());
  known->number_type = &PyLong_Type;
  known->symbol = symbol;
  inputs_[known] = capture_.keep(take(PyLong_FromLongLong(capture_.shapes.now(symbol))));
  return known;
}

/// Computes an expression by operators of Python's.
class Scope::Arithmetic {
 public:
  using Value = Argument;
  explicit Arithmetic(Scope& scope) : scope_(scope) {}

  const Argument* known(Expr e) const {
    const auto& computed = scope_.computed_[scope_.graph_];
    const auto found = computed.find(e);
    return found == computed.end() ? nullptr : &found->second;
  }
  Argument keep(Expr e, Argument argument) { return scope_.computed_[scope_.graph_][e] = argument; }
  Argument leaf(Expr e) {
    Argument result;
    if (!is_constant(e)) {
      result.kind = Argument::Number;
      graph::Node* symbol = scope_.symbol_node(e);
      result.node = scope_.here(symbol);
      const bool is_input = symbol->kind == graph::Node::Placeholder;
      result.object = is_input ? scope_.input(symbol) : scope_.capture_.keep(example_of(e->type));
      return result;
    }
    result.object = scope_.capture_.keep(object_of(e->type, e->constant));
    return result;
  }
  Argument compute(shape::Operation operation, Argument a, Argument b) {
    meta::Call call;
    const meta::NumberFunction function = meta::function_for(operation);
    call.target = function.function;
    call.arg_count = takes_two(operation) ? 2 : 1;
    auto* args = static_cast<Argument*>(scope_.capture_.arena.bytes_for(sizeof(Argument) * 2));
    new (args) Argument(a);
    new (args + 1) Argument(b);
    call.args = args;
    Argument result;
    result.kind = Argument::Number;
    result.node = scope_.graph_->call(call, scope_.capture_.position());
    result.node->number_type = function.type;
    result.object = a.object;
    return result;
  }

 private:
  Scope& scope_;
};

graph::Node* Scope::node(Expr e) {
  Arithmetic arithmetic(*this);
  return shape::Lowering(arithmetic).lower(capture_.shapes.assumptions.simplified(e)).node;
}

namespace {

/// The inputs of the graph from which a number was computed; false if something else is below it too.
bool find_inputs(const graph::Node* node, std::unordered_set<const graph::Node*>& seen,
                 std::vector<const graph::Node*>& inputs) {
  if (!seen.insert(node).second) return true;
  if (node->outer) return find_inputs(node->outer, seen, inputs);
  if (node->kind == graph::Node::Placeholder) {
    inputs.push_back(node);
    return node->number_type != nullptr;
  }
  bool numbers = true;
  meta::each_leaf(node->call, [&](const meta::Argument& leaf) {
    numbers &= leaf.kind == meta::Argument::Number && find_inputs(leaf.node, seen, inputs);
  });
  return numbers;
}

}  // namespace

bool Scope::is_data(const Number* number) const {
  std::unordered_set<const graph::Node*> seen;
  std::vector<const graph::Node*> inputs;
  return !number->expr && !number->source && number->node && !find_inputs(number->node, seen, inputs);
}

PyObject* Scope::specialize(Number* number) {
  if (number->expr) {
    capture_.shapes.fix(number->expr, capture_.position());
  } else if (number->source) {
    capture_.note_specialized(number);
  } else {
    std::unordered_set<const graph::Node*> seen;
    std::vector<const graph::Node*> inputs;
    if (!find_inputs(number->node, seen, inputs)) return nullptr;
    for (const graph::Node* input : inputs)
      if (input->symbol)
        capture_.shapes.fix(input->symbol, capture_.position());
      else if (Number* below = number_inputs_.at(input); below->kind == Kind::Number)
        specialize(below);
  }
  static_assert(sizeof(Constant) == sizeof(Value));  // whatever a Number has besides is not looked at any more
  number->kind = Kind::Constant;
  return number->object;
}

/// Sizes stand before their tensor, or where it would if nothing but they are used of it.
void Scope::place_symbols() {
  if (capture_.shapes.empty()) return;
  std::unordered_map<const Source*, uint32_t> made;  // tensors, also such as are no inputs any more
  for (const graph::Graph::Event& event : root_.events())
    if (!event.hint && event.node->kind == graph::Node::Placeholder)
      made.try_emplace(event.node->source, event.node->id);
  auto is_size = [](const graph::Node* node) { return node->symbol && source::is_number(node->source->kind); };
  auto rank = [&](const graph::Node* node) {
    const auto tensor = is_size(node) ? made.find(node->source->base) : made.end();
    return std::tuple(tensor == made.end() ? node->id : tensor->second, node->source->kind, node->source->index);
  };
  std::vector<graph::Node*> inputs = root_.placeholders(), ordered;
  std::ranges::stable_sort(inputs, {}, rank);
  std::unordered_set<const Source*> tensors;
  for (const graph::Node* input : inputs)
    if (input->record) tensors.insert(input->source);
  std::unordered_set<const graph::Node*> placed;
  auto place = [&](graph::Node* node) {
    if (placed.insert(node).second) ordered.push_back(node);
  };
  auto place_all = [&](shape::SymInt number) {
    if (!number.is_number()) each_symbol(number.expr(), [&](Expr symbol) { place(symbol_node(symbol)); });
  };
  for (graph::Node* input : inputs) {
    if (input->record && input->record->symbolic) {
      std::ranges::for_each(input->record->sizes, place_all);
      std::ranges::for_each(input->record->strides, place_all);
      place_all(input->record->storage_offset);
    }
    if (!is_size(input) || !tensors.contains(input->source->base)) place(input);
  }
  std::ranges::for_each(inputs, place);
  root_.order(std::move(ordered));
}

}  // namespace gramme::trace
