// Comparisons of numbers that only a run of the graph tells, decided by what the numbers lie between.
//
// Where the numbers are computed of the whole number in one tensor (an optimizer's step), the decision holds for all
// whole numbers from the one of now up and down for which it can be shown, and what the tensor holds is guarded to be
// one of them.
#include <cmath>
#include <unordered_map>

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

/// None if they do not tell.
std::optional<bool> compared(int op, Interval a, Interval b) {
  constexpr double kExact = 0x1p53;
  if (!(a.bound() < kExact && b.bound() < kExact)) return std::nullopt;
  switch (op) {
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

/// What numbers of the graph lie between if the input holds a whole number within a range at the start.
class Evaluation {
 public:
  Evaluation(const trace::Contents& contents, const Tensor* input, Interval at_start)
      : contents_(contents), input_(input), at_start_(at_start) {}

  Interval of(Value* value) {
    auto* number = as<Number>(value);
    return number && number->node ? narrower(of(number->node), number->range) : range_of(value);
  }

 private:
  Interval of(const graph::Node* node) {
    if (const trace::Contents::Content* content = contents_.read_by(node)) {
      const bool follows = content->start == input_ && content->whole;
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
    if (call.arg_count == 1 && call.target == negate) return negative(of(call.args[0]));
    if (call.arg_count != 2) return {};
    auto is = [&](int op) { return call.target == operator_row(op).function; };
    const Interval a = of(call.args[0]), b = of(call.args[1]);
    if (is(NB_ADD)) return sum(a, b);
    if (is(NB_SUBTRACT)) return difference(a, b);
    if (is(NB_MULTIPLY)) return product(a, b);
    if (is(NB_TRUE_DIVIDE)) return quotient(a, b);
    if (is(NB_POWER)) return power(a, b);
    return {};
  }

  const trace::Contents& contents_;
  const Tensor* input_;
  const Interval at_start_;
  std::unordered_map<const graph::Node*, Interval> known_;
};

/// The one content that the number is computed of; null if there is none, or another one, too.
const trace::Contents::Content* content_below(const trace::Contents& contents, const graph::Node* node) {
  if (const trace::Contents::Content* content = contents.read_by(node)) return content;
  const trace::Contents::Content* found = nullptr;
  bool several = false;
  if (node->kind == graph::Node::CallFunction)
    meta::each_leaf(node->call, [&](const Argument& leaf) {
      const auto* below = leaf.kind == Argument::Number ? content_below(contents, leaf.node) : nullptr;
      several |= found && below && below->start != found->start;
      if (below) found = below;
    });
  return several ? nullptr : found;
}

const trace::Contents::Content* content_below(const trace::Contents& contents, const Compared& asked) {
  auto of = [&](Value* value) {
    auto* number = as<Number>(value);
    return number && number->node ? content_below(contents, number->node) : nullptr;
  };
  const auto *left = of(asked.left), *right = of(asked.right);
  if (left && right && left->start != right->start) return nullptr;
  return left ? left : right;
}

/// The decision for what the input holds now, and how far around it holds.
class Decision {
 public:
  Decision(const trace::Contents& contents, const trace::Contents::Content& below, const Compared& asked)
      : contents_(contents), input_(below.start), now_(below.now - below.added), asked_(asked) {}

  std::optional<bool> taken() { return taken_ = at({now_, now_}); }

  Interval around() {
    const Interval start = contents_.at_start(input_);
    return {now_ - reach(-1, now_ - start.low), now_ + reach(1, start.high - now_)};
  }

 private:
  std::optional<bool> at(Interval start) {
    Evaluation evaluation(contents_, input_, start);
    return compared(asked_.op, evaluation.of(asked_.left), evaluation.of(asked_.right));
  }

  /// So many numbers further in a direction it is known to hold.
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
  const Tensor* input_;
  const double now_;
  const Compared asked_;
  std::optional<bool> taken_;
};

/// A number that was compared with a constant is no further than that.
void refine(Value* value, int op, Value* other) {
  auto* number = as<Number>(value);
  const Interval limit = range_of(other);
  if (!number || other->kind != Kind::Constant || !limit.is_point() || !number->range.known()) return;
  if (op == Py_GT || op == Py_GE || op == Py_EQ) number->range.low = std::max(number->range.low, limit.low);
  if (op == Py_LT || op == Py_LE || op == Py_EQ) number->range.high = std::min(number->range.high, limit.high);
}

/// A float of an input that is compared with a constant is guarded to stay on its side of it, or to be it.
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
  trace.guard(guards::between(number->source, number->range.low, number->range.high));
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
  auto by_ranges = [&] { return compared(asked.op, range_of(asked.left), range_of(asked.right)); };
  std::optional<bool> truth = by_ranges();
  if (!truth && (keep_side(trace, asked.left, asked.right) || keep_side(trace, asked.right, asked.left)))
    truth = by_ranges();
  if (!truth) {
    trace::Contents& contents = trace.scope().contents();
    const trace::Contents::Content* below = content_below(contents, asked);
    if (!below || !below->start || !below->whole) return std::nullopt;
    Decision decision(contents, *below, asked);
    truth = decision.taken();
    if (!truth) return std::nullopt;
    contents.narrow(below->start, decision.around());
  }
  const int op = *truth ? asked.op : opposite(asked.op);
  refine(asked.left, op, asked.right);
  refine(asked.right, comparison_row(op).swapped, asked.left);
  return truth;
}

}  // namespace gramme::protocol
