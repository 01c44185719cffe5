// A SymNode implementation that refuses to reveal its value, a dispatcher fallback that gives kernels plain numbers,
// and the tape instruction that computes numbers.
#include "record/symbolic.h"

#include <torch/library.h>

#include <algorithm>
#include <span>

#include "aten/python.h"
#include "aten/symbols.h"
#include "base/gil.h"
#include "base/imported.h"
#include "base/once.h"
#include "record/recorder.h"
#include "tape/numerals.h"
#include "tape/python_call.h"
#include "tape/stepper.h"
#include "torch/names.h"

namespace gramme::native {
namespace {

/// A dispatch key above autograd and autocast that PyTorch does not use itself.
constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// A symbol. If code asks for its value before any operator ran, it raises, and the step runs again with plain numbers.
/// Arithmetic and comparisons are not implemented, so they raise too.
class Symbol final : public c10::SymNodeImpl {
 public:
  Symbol(const Numeral& number, const c10::Scalar& value, std::shared_ptr<Numbers::Watch> watch)
      : number(number), value(value), watch_(std::move(watch)) {}

  bool is_int() override { return value.isIntegral(false); }
  bool is_bool() override { return false; }
  bool is_float() override { return value.isFloatingPoint(); }
  bool has_hint() override { return true; }
  std::string str() override { return "s" + std::to_string(number.index); }
  c10::SymNode clone() override { return c10::make_intrusive<Symbol>(number, value, watch_); }
  int64_t guard_int(const char*, int64_t) override { return told().toLong(); }
  int64_t int_() override { return told().toLong(); }
  double guard_float(const char*, int64_t) override { return told().toDouble(); }

  const Numeral number;
  const c10::Scalar value;

 private:
  const c10::Scalar& told() {
    const bool may_refuse = watch_->recorder && watch_->recorder->is_idle();
    TORCH_CHECK(!may_refuse, "gramme: a number is needed where a symbol was given");
    watch_->fixed = true;
    return value;
  }

  std::shared_ptr<Numbers::Watch> watch_;
};

const Symbol* symbol_of(const c10::IValue& part) {
  if (part.isSymInt() && part.toSymInt().is_heap_allocated())
    return dynamic_cast<const Symbol*>(part.toSymInt().toSymNodeImplUnowned());
  if (!part.isSymFloat() || !part.toSymFloat().is_symbolic()) return nullptr;
  const GilHeld gil;
  return dynamic_cast<const Symbol*>(aten::node_of(part.toSymFloat()).get());  // owned by the part
}

/// The symbol that a wrapped-number tensor was made of; null if there is none.
Owned<> behind(const at::Tensor& tensor) {
  static PyObject* const attribute =
      intern("_wrapped_number");  // no name of torch: set where it parses arguments in C++
  Owned<> wrapper = aten::object_of(tensor);
  Owned<> number = Owned<>::steal(PyObject_GetAttr(wrapper.get(), attribute));
  if (!number) PyErr_Clear();
  return number;
}

/// The symbol that the part is or was made of; other parts unchanged.
c10::IValue unwrapped(const c10::IValue& part) {
  if (!part.isTensor() || !part.toTensor().defined()) return part;
  if (!part.toTensor().unsafeGetTensorImpl()->is_wrapped_number()) return part;
  const GilHeld gil;
  const Owned<> number = behind(part.toTensor());
  if (number && aten::is_symint(number.get())) return aten::symint_of(number.get());
  if (number && aten::is_symfloat(number.get())) return aten::symfloat_of(number.get());
  return part;
}

c10::Scalar plain_number(const c10::IValue& symbolic) {
  if (const Symbol* symbol = symbol_of(symbolic)) return symbol->value;
  if (symbolic.isSymInt()) return symbolic.toSymInt().guard_int(__FILE__, __LINE__);
  if (symbolic.isSymFloat()) return symbolic.toSymFloat().guard_float(__FILE__, __LINE__);
  return symbolic.toSymBool().guard_bool(__FILE__, __LINE__);
}

c10::IValue plain(const c10::IValue& part) {
  const c10::IValue number = unwrapped(part);
  if (!is_symbolic(number)) return part;
  const c10::Scalar value = plain_number(number);
  return part.isTensor() ? c10::IValue(number_tensor(value)) : c10::IValue(value);
}

bool needs_plain(const c10::IValue& part) { return is_symbolic(unwrapped(part)); }

void call_plainly(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  for (c10::IValue& value : std::span(*stack).last(count))
    if (any_part(value, needs_plain)) value = with_parts(value, plain);
  c10::impl::ExcludeDispatchKeyGuard once(kKey);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

c10::DispatchKey registered_key() {
  // no Python: a kernel in C++, registered once
  static const auto* const library = [] {
    auto* made = new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
    made->fallback(torch::CppFunction::makeFromBoxedFunction<&call_plainly>());
    return made;
  }();
  return library ? kKey : c10::DispatchKey::Undefined;
}

/// Computes in Python where there is no value, to raise Python's exception if there is one.
[[gnu::cold]] void compute_by_python(const Computation& computation, Run& run) {
  WithGil gil(run);
  call_step(*computation.step, [&](ValueId value) {
    return object_at(std::ranges::find(computation.operands, value, &std::pair<ValueId, Place>::first)->second, run);
  });
}

void compute(const Instruction& instruction, Run& run) {
  const Computation& computation = computation_of(instruction);
  if (computation.of != kNone) run.numbers[computation.size] = run.tensors[computation.of]->size(computation.dimension);
  if (shape::run(computation.code, run.numbers)) [[likely]]
    return;
  if (computation.step) compute_by_python(computation, run);
  TORCH_CHECK(false, "a size takes more than 64 bits");
}

}  // namespace

bool Numbers::fits(PyObject* object) {
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(object, &overflow);
  return !overflow;
}

shape::Expr Numbers::constant_of(PyObject* object) {
  if (PyFloat_CheckExact(object)) return shape::float_constant(PyFloat_AS_DOUBLE(object));
  return fits(object) ? shape::constant(PyLong_AsLongLong(object)) : nullptr;
}

NumberId Numbers::symbol(int64_t value, bool waits) {
  const NumberId number = keep(program_.add(shape::symbol(symbols_++)), value);
  waits_[static_cast<size_t>(number)] = waits;
  return number;
}

NumberId Numbers::constant(int64_t value) { return keep(program_.add(shape::constant(value)), value); }

NumberId Numbers::add(shape::Expr e, int64_t value, std::vector<shape::Instruction>& code) {
  const size_t before = program_.code().size();
  const NumberId number = keep(program_.add(e), value);
  take_waiting(before, code);
  return number;
}

void Numbers::require(shape::Expr condition, std::vector<shape::Instruction>& code) {
  const size_t before = program_.code().size();
  program_.require(condition);
  take_waiting(before, code);
}

void Numbers::take_waiting(size_t first, std::vector<shape::Instruction>& code) {
  waits_.resize(program_.register_count());
  for (const shape::Instruction& made : std::span(program_.code()).subspan(first)) {
    const bool waits = this->waits(made);
    if (!shape::is_requirement(made.operation)) waits_[made.target] = waits;
    if (waits) code.push_back(made);
  }
}

NumberId Numbers::keep(shape::Register number, int64_t value) {
  values_.resize(program_.register_count());
  waits_.resize(program_.register_count());
  values_[number] = value;
  return static_cast<NumberId>(number);
}

Owned<> Numbers::symbolic(const Numeral& number, PyObject* value) const {
  const bool whole = number.kind == Numeral::Whole;
  const c10::Scalar now =
      whole ? c10::Scalar(int64_t{PyLong_AsLongLong(value)}) : c10::Scalar(PyFloat_AS_DOUBLE(value));
  c10::SymNode node = c10::make_intrusive<Symbol>(number, now, watch_);
  return whole ? aten::object_of(c10::SymInt(std::move(node))) : aten::symfloat_object(node);
}

std::optional<Numeral> numeral_of(const c10::IValue& part) {
  const c10::IValue number = unwrapped(part);
  if (const Symbol* symbol = symbol_of(number)) return symbol->number;
  if (is_symbolic(number)) return Numeral{Numeral::Constant, -1, plain_number(number)};
  return number.isScalar() ? std::optional(Numeral{Numeral::Constant, -1, number.toScalar()}) : std::nullopt;
}

bool is_symbol(const c10::IValue& part) { return symbol_of(unwrapped(part)) != nullptr; }

PlainForKernels::PlainForKernels() : guard_(registered_key()) {}

void bind_computation(Instruction& instruction, Computation computation) {
  instruction.kind = Instruction::Number;
  instruction.bound = std::make_unique<Computation>(std::move(computation));
  instruction.invoke = compute;
}

std::optional<Arithmetic> arithmetic_of(const Step& step) {
  struct Row {
    const char *module, *name;
    size_t operands;
    Arithmetic arithmetic;
  };
  using Table = std::unordered_map<PyObject*, const Row*>;
  const Table* const table = once([] {
    constexpr auto negate = [](shape::Expr a, shape::Expr) { return shape::negate(a); };
    constexpr auto to_float = [](shape::Expr a, shape::Expr) { return shape::to_float(a); };
    constexpr auto truncate = [](shape::Expr a, shape::Expr) { return shape::truncate(a); };
    constexpr auto floor = [](shape::Expr a, shape::Expr) { return shape::floor(a); };
    constexpr auto ceil = [](shape::Expr a, shape::Expr) { return shape::ceil(a); };
    constexpr auto round = [](shape::Expr a, shape::Expr) { return shape::round(a); };
    constexpr auto square_root = [](shape::Expr a, shape::Expr) { return shape::square_root(a); };
    static constexpr Row rows[] = {
        {"operator", "neg", 1, {negate, false}},
        {"operator", "add", 2, {shape::add, false}},
        {"operator", "iadd", 2, {shape::add, false}},
        {"operator", "sub", 2, {shape::subtract, false}},
        {"operator", "isub", 2, {shape::subtract, false}},
        {"operator", "mul", 2, {shape::multiply, false}},
        {"operator", "imul", 2, {shape::multiply, false}},
        {"operator", "floordiv", 2, {shape::floor_divide, true}},
        {"operator", "ifloordiv", 2, {shape::floor_divide, true}},
        {"operator", "mod", 2, {shape::modulo, true}},
        {"operator", "imod", 2, {shape::modulo, true}},
        {"operator", "truediv", 2, {shape::true_divide, true}},
        {"operator", "itruediv", 2, {shape::true_divide, true}},
        {"operator", "pow", 2, {shape::power, false}},
        {"operator", "ipow", 2, {shape::power, false}},
        {"builtins", "min", 2, {shape::minimum, false}},
        {"builtins", "max", 2, {shape::maximum, false}},
        {"builtins", "round", 1, {round, false}},
        {"math", "trunc", 1, {truncate, false}},
        {"math", "floor", 1, {floor, false}},
        {"math", "ceil", 1, {ceil, false}},
        {"math", "sqrt", 1, {square_root, false}},
        {"torch", "sym_min", 2, {shape::minimum, false}},
        {"torch", "sym_max", 2, {shape::maximum, false}},
        {"torch", "sym_int", 1, {truncate, false}},
        {"torch", "sym_float", 1, {to_float, false}},
    };
    auto* made = new Table();
    for (const Row& row : rows) made->emplace(imported(row.module, row.name).release(), &row);
    static constexpr Row symbolic_root = {"torch", "sqrt of a symbol", 1, {square_root, false}};
    made->emplace(of_torch::object(of_torch::SymSqrt), &symbolic_root);
    return made;
  });
  const auto found = table->find(step.target.get());
  if (step.kind != Step::Function || found == table->end() || !step.keywords.empty()) return std::nullopt;
  const Row& row = *found->second;
  return step.arguments.size() == row.operands ? std::optional(row.arithmetic) : std::nullopt;
}

}  // namespace gramme::native
