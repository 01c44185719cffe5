// Numbers in the graph: inputs, nodes computed from them, and specialisation where the capture needs the value.
#include <algorithm>
#include <tuple>

#include "base/imported.h"
#include "base/once.h"
#include "meta/functions.h"
#include "shape/lower.h"
#include "trace/left_open.h"
#include "trace/scope.h"

namespace gramme::trace {

using namespace value;
using meta::Argument;
using shape::Expr;
using SK = source::Kind;

namespace {

/// The Python object that a word of the shape language stands for.
Owned<> object_of(shape::Type type, int64_t word) {
  if (type == shape::Type::Bool) return share(word ? Py_True : Py_False);
  return take(type == shape::Type::Int ? PyLong_FromLongLong(word) : PyFloat_FromDouble(shape::as_float(word)));
}

/// An example that stands for a data-dependent value.
Owned<> example_of(shape::Type type) {
  return object_of(type, type == shape::Type::Float ? shape::as_word(2.0) : type == shape::Type::Bool ? 1 : 2);
}

}  // namespace

Value* VaryingNumbers::expression(shape::Expr e) {
  e = shapes_.assumptions.simplified(e);
  const std::optional<int64_t> now = shapes_.assumptions.hint(e);
  const bool unbacked = shapes_.assumptions.is_unbacked(e);
  if (!now && !unbacked) cannot(Reason::DataDependentValue, "a number whose value is not known");
  Owned<> object = unbacked ? example_of(e->type) : object_of(e->type, *now);
  if (is_constant(e)) return values_.constant(std::move(object));
  auto* result = values_.make<Number>();
  result->object = values_.keep(std::move(object));
  result->type = Py_TYPE(result->object);
  result->expr = e;
  if (e->type == shape::Type::Int) {
    const shape::Range range = shapes_.assumptions.range(e);
    const bool bounded = range.low != shape::Range::kNoLow && range.high != shape::Range::kNoHigh;
    if (bounded) result->range = {static_cast<double>(range.low), static_cast<double>(range.high)};
  }
  return result;
}

graph::Node* Scope::node(Number* number) {
  const bool computed = number->function || number->expr;  // computed again in each body that uses it
  if (number->node && (!computed || is_of_graph(number->node))) return here(number->node);
  if (number->function) return number->node = first_of(number, computed_node(number));
  if (number->expr) return number->node = node(number->expr);
  number->node = inputs_.add_number(number, capture_.position());
  return here(number->node);
}

/// The node of the operation by which the program computed the number.
graph::Node* Scope::computed_node(Number* number) {
  if (graph_->length() >= capture_.policy.max_nodes) cannot(Reason::Budget, "too many operations");
  auto* args = static_cast<Argument*>(capture_.arena.bytes_for(sizeof(Argument) * 2));
  meta::Call call;
  call.kind = PyUnicode_Check(number->function) ? meta::Call::Method : meta::Call::Function;
  call.target = number->function;
  call.args = args;
  const size_t before = building_.numbers.size();  // those of the call that takes the number
  for (Value* operand : number->operands)
    if (operand) new (args + call.arg_count++) Argument(argument(operand));
  building_.numbers.resize(before);
  graph::Node* node = graph_->call(call, capture_.position());
  node->number_type = number->type;
  return node;
}

/// The first node with the number's value, so that a number computed twice is in the graph once.
graph::Node* Scope::first_of(const Number* number, graph::Node* made) {
  if (!number->expr) return made;
  const Expr e = capture_.shapes.assumptions.simplified(number->expr);
  if (is_constant(e)) return made;
  if (e->kind == shape::Kind::Symbol) return here(symbol_node(e));
  Argument computed;
  computed.kind = Argument::Number;
  computed.node = made;
  computed.object = number->object;
  return inputs_.keep_computed(graph_, e, computed).node;
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
  if (graph::Node* known = inputs_.symbol(symbol)) return known;
  const Source* source = capture_.shapes.source_of(symbol);
  if (!source) GRAMME_BUG("a number out of data that no node gives");
  PyObject* now = capture_.keep(take(PyLong_FromLongLong(capture_.shapes.now(symbol))));
  return inputs_.add_symbol(symbol, source, now, capture_.position());
}

/// Computes an expression in the graph by Python's operators.
class Scope::Arithmetic {
 public:
  using Value = Argument;
  explicit Arithmetic(Scope& scope) : scope_(scope) {}

  const Argument* known(Expr e) const { return scope_.inputs_.computed(scope_.graph_, e); }
  Argument keep(Expr e, Argument argument) { return scope_.inputs_.keep_computed(scope_.graph_, e, argument); }
  Argument leaf(Expr e) {
    Argument result;
    if (!is_constant(e)) {
      result.kind = Argument::Number;
      graph::Node* symbol = scope_.symbol_node(e);
      result.node = scope_.here(symbol);
      const bool is_input = symbol->source;
      result.object = is_input ? scope_.inputs_.object(symbol) : scope_.capture_.keep(example_of(e->type));
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
    if (!node->source) return false;  // an input of a body, passed by its operator
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
    const Expr known = capture_.shapes.assumptions.simplified(number->expr);
    if (is_constant(known))  // a data-dependent number's object was only an example
      number->object = capture_.keep(object_of(known->type, known->constant));
    else
      capture_.shapes.fix(number->expr, capture_.position());
  } else if (number->source) {
    if (is_left_open(capture_.policy, number->source, number->object))
      cannot(Reason::DataDependentValue, "a float of which each value had a capture of its own");
    capture_.numbers.specialize(number);
  } else {
    std::unordered_set<const graph::Node*> seen;
    std::vector<const graph::Node*> inputs;
    if (!find_inputs(number->node, seen, inputs)) return nullptr;
    for (const graph::Node* input : inputs)
      if (input->symbol)
        capture_.shapes.fix(input->symbol, capture_.position());
      else if (Number* below = inputs_.number(input); below->kind == Kind::Number)
        specialize(below);
  }
  static_assert(sizeof(Constant) == sizeof(Value));  // the rest of the Number is no longer read
  number->kind = Kind::Constant;
  return number->object;
}

/// Puts inputs that are sizes before their tensor, or in its place if only its sizes are used.
void Scope::place_symbols() {
  const Shown& shown = shown_;
  if (capture_.shapes.empty() && shown.empty()) return;
  std::unordered_map<const Source*, Shown::Place> places;  // also of tensors that are no longer inputs
  size_t made = 0;
  for (const graph::Graph::Event& event : root_.events())
    if (!event.hint && event.node->kind == graph::Node::Placeholder)
      places.try_emplace(event.node->source, shown.place(inputs_.object(event.node), made++));
  auto is_size = [](const graph::Node* node) { return node->symbol && source::is_number(node->source->kind); };
  auto rank = [&](const graph::Node* node) {
    const auto tensor = is_size(node) ? places.find(node->source->base) : places.end();
    const Shown::Place& place = tensor == places.end() ? places.at(node->source) : tensor->second;
    return std::tuple(place, node->source->kind, node->source->index);
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
  for (graph::Node* input : inputs) {
    auto place_all = [&](shape::SymInt number) {
      if (number.is_number()) return number;
      each_symbol(number.expr(), [&](Expr symbol) {
        graph::Node* node = symbol_node(symbol);
        if (!node->position) node->position = input->position;  // used by this tensor only
        place(node);
      });
      return number;
    };
    if (input->record && input->record->symbolic) meta::mapped(input->record, place_all);
    if (!is_size(input) || !tensors.contains(input->source->base)) place(input);
  }
  std::ranges::for_each(inputs, place);
  root_.order(std::move(ordered));
}

}  // namespace gramme::trace
