// Decides comparisons of numbers that only the graph knows, by their bounds.
//
// If the numbers depend on one whole number (an optimizer's step, in a tensor or an int), the decision is extended to
// all neighbouring whole numbers for which it can be shown. The number is guarded to be one of them.
#include <cmath>
#include <unordered_map>

#include "base/imported.h"
#include "base/once.h"
#include "graph/graph.h"
#include "protocol/number.h"
#include "protocol/operator_table.h"

namespace gramme::protocol {

using namespace value;
using meta::Argument;
using meta::Interval;

namespace {

struct Compared {
  int op;
  Value *left, *right;
};

struct Comparisons {
  std::unordered_map<const graph::Node*, Compared> made;
};

std::optional<bool> less(Interval a, Interval b) {
  if (a.high < b.low) return true;
  return a.low >= b.high ? std::optional(false) : std::nullopt;
}

std::optional<bool> equal(Interval a, Interval b) {
  if (a.high < b.low || b.high < a.low) return false;
  return a.is_point() && b.is_point() ? std::optional(true) : std::nullopt;
}

std::optional<bool> opposite(std::optional<bool> truth) { return truth ? std::optional(!*truth) : std::nullopt; }

/// True if the bounds describe the number exactly: for floats, and for ints up to 53 bits.
bool is_exact(Value* value, Interval range) {
  constexpr double kExact = 0x1p53;
  auto* number = as<Number>(value);
  const bool is_float = number ? number->type == &PyFloat_Type : PyFloat_CheckExact(value->object);
  return is_float ? range.known() : range.bound() < kExact;
}

/// The comparison of two intervals; nullopt if they do not decide it.
std::optional<bool> compared(const Compared& asked, Interval a, Interval b) {
  if (!is_exact(asked.left, a) || !is_exact(asked.right, b)) return std::nullopt;
  switch (asked.op) {
    case Py_LT:
      return less(a, b);
    case Py_LE:
      return opposite(less(b, a));
    case Py_EQ:
      return equal(a, b);
    case Py_NE:
      return opposite(equal(a, b));
    case Py_GT:
      return less(b, a);
    default:
      return opposite(less(a, b));
  }
}

/// The whole number that others are computed from: an input's content, or a varying int.
struct Origin {
  const trace::Contents::Content* content = nullptr;
  const graph::Node* symbol = nullptr;
  bool several = false;

  void add(const Origin& other) {
    several |= other.several || (content && other.content && content->start != other.content->start);
    several |= symbol && other.symbol && symbol != other.symbol;
    if (other.content) content = other.content;
    if (other.symbol) symbol = other.symbol;
  }
};

/// Evaluates the intervals of graph numbers, given the origin's range at the start.
class Evaluation {
 public:
  Evaluation(const trace::Contents& contents, const Origin& origin, Interval at_start)
      : contents_(contents), origin_(origin), at_start_(at_start) {}

  Interval of(Value* value) {
    auto* number = as<Number>(value);
    return number && number->node ? narrower(of(number->node), number->range) : range_of(value);
  }

 private:
  Interval of(const graph::Node* node) {
    if (node == origin_.symbol) return at_start_;
    if (const trace::Contents::Content* content = contents_.read_by(node)) {
      const bool follows = origin_.content && content->start == origin_.content->start && content->whole;
      return follows ? sum(at_start_, {content->added, content->added}) : content->range;
    }
    auto [known, is_new] = known_.try_emplace(node);
    if (is_new && node->kind == graph::Node::CallFunction) known_[node] = computed(node->call);
    return known_[node];
  }

  Interval of(const Argument& argument) {
    if (argument.kind == Argument::Number) return narrower(of(argument.node), argument.range);
    Constant constant(nullptr, argument.object);
    const bool number = argument.kind == Argument::Constant &&
                        (PyFloat_CheckExact(argument.object) || PyLong_CheckExact(argument.object));
    return number ? range_of(&constant) : Interval();
  }

  Interval computed(const meta::Call& call) {
    PyObject* const negate = once([] { return operator_function("neg"); });
    PyObject* const math_power = once([] { return imported("math", "pow").release(); });
    PyObject* const larger = once([] { return imported("builtins", "max").release(); });
    PyObject* const smaller = once([] { return imported("builtins", "min").release(); });
    PyObject* const sym_larger = once([] { return imported("torch", "sym_max").release(); });
    PyObject* const sym_smaller = once([] { return imported("torch", "sym_min").release(); });
    if (call.arg_count == 1 && call.target == negate) return negative(of(call.args[0]));
    if (call.arg_count != 2) return {};
    auto is = [&](int op) { return call.target == operator_row(op).function; };
    const Interval a = of(call.args[0]), b = of(call.args[1]);
    if (is(NB_ADD)) return sum(a, b);
    if (is(NB_SUBTRACT)) return difference(a, b);
    if (is(NB_MULTIPLY)) return product(a, b);
    if (is(NB_TRUE_DIVIDE)) return quotient(a, b);
    if (is(NB_POWER) || call.target == math_power) return power(a, b);
    if (call.target == larger || call.target == sym_larger) return maximum(a, b);
    if (call.target == smaller || call.target == sym_smaller) return minimum(a, b);
    return {};
  }

  const trace::Contents& contents_;
  const Origin origin_;
  const Interval at_start_;
  std::unordered_map<const graph::Node*, Interval> known_;
};

Origin origin_of(const trace::Contents& contents, const graph::Node* node) {
  if (const trace::Contents::Content* content = contents.read_by(node)) return {.content = content};
  if (node->kind == graph::Node::Placeholder && node->symbol) return {.symbol = node};
  Origin found;
  if (node->kind == graph::Node::CallFunction)
    meta::each_leaf(node->call, [&](const Argument& leaf) {
      if (leaf.kind == Argument::Number) found.add(origin_of(contents, leaf.node));
    });
  return found;
}

Origin origin_of(const trace::Contents& contents, const Compared& asked) {
  Origin found;
  for (Value* value : {asked.left, asked.right})
    if (auto* number = as<Number>(value); number && number->node) found.add(origin_of(contents, number->node));
  return found;
}

/// The decision for the origin's present value, and how far around it that holds.
class Decision {
 public:
  Decision(const trace::Contents& contents, const Origin& origin, double now, Interval most, const Compared& asked)
      : contents_(contents), origin_(origin), now_(now), most_(most), asked_(asked) {}

  std::optional<bool> taken() { return taken_ = at({now_, now_}); }

  Interval around() { return {now_ - reach(-1, now_ - most_.low), now_ + reach(1, most_.high - now_)}; }

 private:
  std::optional<bool> at(Interval start) {
    Evaluation evaluation(contents_, origin_, start);
    return compared(asked_, evaluation.of(asked_.left), evaluation.of(asked_.right));
  }

  /// How many numbers further in a direction the decision is shown to hold.
  double reach(int direction, double most) {
    constexpr int kSteps = 2000;
    double known = 0, step = 1;
    for (int i = 0; i < kSteps && known < most && step >= 1; ++i) {
      const double next = std::min(known + step, most);
      const double a = now_ + direction * (known + 1), b = now_ + direction * next;
      const bool holds = at({std::min(a, b), std::max(a, b)}) == taken_;
      if (holds) known = next;
      step = holds ? step * 2 : std::floor(step / 2);
    }
    return known;
  }

  const trace::Contents& contents_;
  const Origin origin_;
  const double now_;
  const Interval most_;
  const Compared asked_;
  std::optional<bool> taken_;
};

/// Decides by an input's content at the start.
std::optional<bool> decided_by_content(Trace& trace, const Origin& origin, const Compared& asked) {
  const trace::Contents::Content& content = *origin.content;
  if (!content.start || !content.whole) return std::nullopt;
  trace::Contents& contents = trace.scope().contents();
  Decision decision(contents, origin, content.now - content.added, contents.at_start(content.start), asked);
  const std::optional<bool> truth = decision.taken();
  if (truth) contents.narrow(content.start, decision.around());
  return truth;
}

/// Decides by a positive int.
std::optional<bool> decided_by_int(Trace& trace, const Origin& origin, const Compared& asked) {
  constexpr double kMostSteps = 0x1p23;
  const shape::Expr symbol = origin.symbol->symbol;
  const std::optional<int64_t> now = trace.shapes.assumptions.hint(symbol);
  if (symbol->type != shape::Type::Int || !trace.numbers.has_of_optimizer()) return std::nullopt;
  if (!now || *now < 1 || static_cast<double>(*now) > kMostSteps) return std::nullopt;
  const auto number = static_cast<double>(*now);
  Decision decision(trace.scope().contents(), origin, number, {1, kMostSteps}, asked);
  const std::optional<bool> truth = decision.taken();
  if (!truth) return std::nullopt;
  const Interval around = decision.around();
  const bool holds = trace.decide(at_least(symbol, shape::constant(static_cast<int64_t>(around.low)))) &&
                     trace.decide(at_most(symbol, shape::constant(static_cast<int64_t>(around.high))));
  return holds ? truth : std::nullopt;
}

/// Narrows a number's interval by a comparison with a constant.
void refine(Value* value, int op, Value* other) {
  auto* number = as<Number>(value);
  const Interval limit = range_of(other);
  if (!number || other->kind != Kind::Constant || !limit.is_point() || !number->range.known()) return;
  if (op == Py_GT || op == Py_GE || op == Py_EQ) number->range.low = std::max(number->range.low, limit.low);
  if (op == Py_LT || op == Py_LE || op == Py_EQ) number->range.high = std::min(number->range.high, limit.high);
}

/// Guards an input float that is compared with a constant to stay on its side of it, or to equal it.
bool keep_side(Trace& trace, Value* value, Value* other) {
  constexpr double kExact = 0x1p53;
  auto* number = as<Number>(value);
  if (!number || number->type != &PyFloat_Type || number->expr || !number->source) return false;
  const Interval limit = range_of(other);
  if (other->kind != Kind::Constant || !limit.is_point() || limit.bound() >= kExact) return false;
  const double now = PyFloat_AS_DOUBLE(number->object), at = limit.low;
  if (!number->range.known() || !number->range.holds(now)) return false;
  if (now >= at) number->range.low = std::max(number->range.low, now == at ? at : std::nextafter(at, HUGE_VAL));
  if (now <= at) number->range.high = std::min(number->range.high, now == at ? at : std::nextafter(at, -HUGE_VAL));
  trace.facts.add(guards::between(number->source, number->range.low, number->range.high));
  return true;
}

int opposite(int op) {
  static constexpr int kOpposites[] = {Py_GE, Py_GT, Py_NE, Py_EQ, Py_LE, Py_LT};
  return kOpposites[op];
}

}  // namespace

void note_comparison(Trace& trace, const Number* number, int op, Value* left, Value* right) {
  trace.scope().state<Comparisons>().made[number->node] = {op, left, right};
}

std::optional<bool> truth_by_ranges(Trace& trace, Number* number) {
  const auto& made = trace.scope().state<Comparisons>().made;
  const auto found = number->node ? made.find(number->node) : made.end();
  if (found == made.end()) return std::nullopt;
  const Compared& asked = found->second;
  auto by_ranges = [&] { return compared(asked, range_of(asked.left), range_of(asked.right)); };
  std::optional<bool> truth = by_ranges();
  if (!truth && (keep_side(trace, asked.left, asked.right) || keep_side(trace, asked.right, asked.left)))
    truth = by_ranges();
  if (!truth) {
    Origin origin = origin_of(trace.scope().contents(), asked);
    if (origin.several || (!origin.content && !origin.symbol)) return std::nullopt;
    if (origin.content) origin.symbol = nullptr;  // its bounds suffice
    truth = origin.content ? decided_by_content(trace, origin, asked) : decided_by_int(trace, origin, asked);
    if (!truth) return std::nullopt;
  }
  const int op = *truth ? asked.op : opposite(asked.op);
  refine(asked.left, op, asked.right);
  refine(asked.right, comparison_row(op).swapped, asked.left);
  return truth;
}

}  // namespace gramme::protocol
