// The shared ShapeEnv, conversion of capture expressions to its symbols, and attribution of new symbols to results.
#include "meta/unbacked.h"

#include <algorithm>

#include "base/imported.h"
#include "meta/fakes.h"
#include "meta/fill.h"
#include "meta/functions.h"
#include "meta/pattern.h"
#include "shape/lower.h"

namespace gramme::meta {

using shape::Expr;

namespace {

/// The ShapeEnv of one capture, with a symbol for each of the capture's; expressions are computed from these.
class SharedEnvironment final : public Environment {
 public:
  SharedEnvironment(shape::Assumptions& assumptions, const DataDependence& allowed)
      : Environment(assumptions, take(PyObject_CallFunction(imported("gramme._environment", "SharedEnvironment").get(),
                                                            "ii", int{allowed.scalars}, int{allowed.shapes}))) {}

  Owned<> number(Expr e) override { return shape::Lowering(*this).lower(e); }

  /// Reads a number; data-dependent floats and bools have no expression, since nothing can be decided by them.
  Expr read(PyObject* symbolic) override {
    const bool is_data = take(PyObject_CallMethod(environment_.get(), "is_opaque", "O", symbolic)).get() == Py_True;
    return is_data ? nullptr : Environment::read(symbolic);
  }

  void assume(Expr condition) { take(PyObject_CallMethod(environment_.get(), "assume", "O", number(condition).get())); }
  std::vector<Expr> asserted() { return convert_all("asserted"); }

  /// The symbols made by the last call.
  const std::vector<shape::Range>& made() const { return made_; }
  void begin() { made_.clear(); }
  /// Discards the symbols of a failed call.
  void discard() {
    for (const std::string& name : made_names_) named_.erase(name);
    made_.clear();
  }

  // For lowering.
  using Value = Owned<>;
  const Owned<>* known(Expr e) const {
    const auto found = symbols_.find(e);
    return found == symbols_.end() ? nullptr : &found->second;
  }
  Owned<> keep(Expr e, Owned<> value) { return symbols_[e] = std::move(value); }
  Owned<> leaf(Expr e) {
    if (shape::is_constant(e))
      return take(e->type == shape::Type::Float ? PyFloat_FromDouble(shape::float_value(e))
                                                : PyLong_FromLongLong(e->constant));
    if (e->type != shape::Type::Int) throw Inexpressible("a number that is no int");
    const shape::Range range = assumptions_.range(e);
    auto bound = [](int64_t value, int64_t none) {
      return value == none ? share(Py_None) : take(PyLong_FromLongLong(value));
    };
    const std::optional<int64_t> hint = assumptions_.hint(e);
    Owned<> now = hint ? take(PyLong_FromLongLong(*hint)) : share(Py_None);
    Owned<> low = bound(range.low, shape::Range::kNoLow), high = bound(range.high, shape::Range::kNoHigh);
    return add(e, take(PyObject_CallMethod(environment_.get(), "number", "OOO", now.get(), low.get(), high.get())));
  }
  Owned<> compute(shape::Operation operation, const Owned<>& a, const Owned<>& b) {
    PyObject* operands[] = {a.get(), b.get()};
    return take(PyObject_Vectorcall(function_for(operation).function, operands, takes_two(operation) ? 2 : 1, nullptr));
  }

 private:
  Expr unknown(PyObject* name) override {
    Owned<> bounds = take(PyObject_CallMethod(environment_.get(), "bounds", "O", name));
    if (bounds.get() == Py_None) return nullptr;
    auto bound = [&](Py_ssize_t i, int64_t none) {
      PyObject* value = PyTuple_GET_ITEM(bounds.get(), i);
      return value == Py_None ? none : static_cast<int64_t>(PyLong_AsLongLong(value));
    };
    const Expr made = shape::symbol(static_cast<int64_t>(assumptions_.symbol_count() + made_.size()));
    made_.push_back({bound(0, shape::Range::kNoLow), bound(1, shape::Range::kNoHigh)});
    made_names_.push_back(PyUnicode_AsUTF8(name));
    symbols_[made] = share(PyTuple_GET_ITEM(bounds.get(), 2));
    return named_[made_names_.back()] = made;
  }

  std::vector<shape::Range> made_;
  std::vector<std::string> made_names_;
};

/// True if the symbol occurs in the result as a number, or as a size or offset of a tensor.
bool holds(const Result& result, Expr symbol) {
  if (result.expr == symbol) return true;
  auto is_it = [symbol](shape::SymInt number) { return !number.is_number() && number.expr() == symbol; };
  if (result.kind == Result::Tensor) {
    const Record& record = *result.record;
    if (is_it(record.storage_offset) || std::any_of(record.sizes.begin(), record.sizes.end(), is_it)) return true;
  }
  return std::any_of(result.items.begin(), result.items.end(), [&](const Result& item) { return holds(item, symbol); });
}

}  // namespace

bool takes_unbacked(const Call& call, const shape::Assumptions& assumptions) {
  bool found = false;
  auto look = [&](shape::SymInt number) { found |= !number.is_number() && assumptions.is_unbacked(number.expr()); };
  each_leaf(call, [&](const Argument& leaf) {
    if (leaf.expr) found |= assumptions.is_unbacked(leaf.expr);
    if (leaf.kind != Argument::Tensor || !leaf.record->symbolic) return;
    const Record& record = *physical(leaf.record);
    std::for_each(record.sizes.begin(), record.sizes.end(), look);
    std::for_each(record.strides.begin(), record.strides.end(), look);
    look(record.storage_offset);
  });
  return found;
}

struct Unbacked::State {
  State(shape::Assumptions& assumptions, const DataDependence& allowed)
      : assumptions(assumptions), environment(assumptions, allowed), fakes(environment) {}
  shape::Assumptions& assumptions;
  SharedEnvironment environment;
  Fakes fakes;
};

Unbacked::Unbacked(shape::Assumptions& assumptions, const DataDependence& allowed)
    : state_(std::make_unique<State>(assumptions, allowed)) {}
Unbacked::~Unbacked() = default;

Unbacked::Answer Unbacked::infer(const Call& call) {
  SharedEnvironment& environment = state_->environment;
  Answer answer;
  environment.begin();
  answer.outcome = fill(call, environment, state_->fakes, state_->assumptions, answer.undecided).outcome;
  if (!answer.outcome.mutations.empty() || answer.outcome.opaque) forget_data();
  const auto first = static_cast<int64_t>(state_->assumptions.symbol_count());
  try {
    if (!answer.outcome.error) answer.asserted = environment.asserted();
  } catch (const Inexpressible& error) {
    answer.outcome = inexpressible(error.what());
  }
  for (size_t i = 0; i < environment.made().size() && !answer.outcome.error; ++i)
    if (!holds(answer.outcome.result, shape::symbol(first + static_cast<int64_t>(i))))
      answer.outcome = inexpressible("a number that no result has");
  if (answer.outcome.error) environment.discard();
  answer.made = environment.made();
  return answer;
}

void Unbacked::assume(Expr condition) {
  try {
    state_->environment.assume(condition);
  } catch (const Inexpressible&) {
    // The ShapeEnv then knows less, which is harmless.
  }
}

void Unbacked::forget_data() { state_->fakes.forget_all(); }

}  // namespace gramme::meta
