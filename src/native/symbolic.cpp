#include "native/symbolic.h"

#include <ATen/ScalarOps.h>
#include <torch/library.h>

#include <algorithm>

#include "aten/python.h"
#include "base/gil.h"
#include "base/imported.h"
#include "base/once.h"
#include "native/python_call.h"
#include "native/recorder.h"
#include "native/stepper.h"

namespace gramme::native {
namespace {

/// PyTorch leaves this place in the order of kernels, above autograd and autocast, to others.
constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// Asked for its value before any operator ran, it raises, and the step is done over with plain numbers; so it does for
/// arithmetic, comparisons and the like, which are left out.
class Symbol final : public c10::SymNodeImpl {
 public:
  Symbol(NumberId number, int64_t value, std::shared_ptr<Numbers::Watch> watch)
      : number(number), value(value), watch_(std::move(watch)) {}

  bool is_int() override { return true; }
  bool is_bool() override { return false; }
  bool is_float() override { return false; }
  bool has_hint() override { return true; }
  std::string str() override { return "s" + std::to_string(number); }
  c10::SymNode clone() override { return c10::make_intrusive<Symbol>(number, value, watch_); }
  int64_t guard_int(const char*, int64_t) override { return told(); }
  int64_t int_() override { return told(); }

  const NumberId number;
  const int64_t value;

 private:
  int64_t told() {
    const bool may_refuse = watch_->recorder && watch_->recorder->is_idle();
    TORCH_CHECK(!may_refuse, "gramme: a number is needed where a symbol was given");
    watch_->fixed = true;
    return value;
  }

  std::shared_ptr<Numbers::Watch> watch_;
};

const Symbol* symbol_of(const c10::SymInt& number) {
  return number.is_heap_allocated() ? dynamic_cast<const Symbol*>(number.toSymNodeImplUnowned()) : nullptr;
}

/// The symbol that a wrapped number was made of.
std::optional<c10::SymInt> behind(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->is_wrapped_number()) return std::nullopt;
  const GilHeld gil;
  static PyObject* const attribute = intern("_wrapped_number");
  Owned<> wrapper = aten::object_of(tensor);
  Owned<> number = Owned<>::steal(PyObject_GetAttr(wrapper.get(), attribute));
  if (!number) PyErr_Clear();
  if (!number || !aten::is_symint(number.get())) return std::nullopt;
  return aten::symint_of(number.get());
}

int64_t plain(const c10::SymInt& number) {
  const Symbol* symbol = symbol_of(number);
  return symbol ? symbol->value : number.guard_int(__FILE__, __LINE__);
}

void make_plain(c10::IValue& value) {
  if (value.isSymInt()) {
    value = plain(value.toSymInt());
  } else if (value.isTensor()) {
    if (std::optional<c10::SymInt> number = behind(value.toTensor())) value = number_tensor(plain(*number));
  } else if (holds_symbols(value)) {
    c10::List<int64_t> list;
    for (const c10::IValue& number : value.toListRef())
      list.push_back(number.isSymInt() ? plain(number.toSymInt()) : number.toInt());
    value = std::move(list);
  }
}

void call_plainly(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  for (size_t i = stack->size() - count; i < stack->size(); ++i) make_plain((*stack)[i]);
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

/// Where there is no value: what Python raises, if it does.
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

bool holds_symbols(const c10::IValue& value) {
  if (!value.isList()) return false;
  const auto items = value.toListRef();
  return std::any_of(items.begin(), items.end(), [](const c10::IValue& item) { return item.isSymInt(); });
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

Owned<> Numbers::symbolic(NumberId number) const {
  auto node = c10::make_intrusive<Symbol>(number, value(number), watch_);
  return aten::object_of(c10::SymInt(c10::SymNode(std::move(node))));
}

std::optional<NumberId> number_of(const c10::SymInt& number) {
  const Symbol* symbol = symbol_of(number);
  return symbol ? std::optional(symbol->number) : std::nullopt;
}

std::optional<NumberId> number_of(const at::Tensor& tensor) {
  const std::optional<c10::SymInt> number = behind(tensor);
  return number ? number_of(*number) : std::nullopt;
}

at::Tensor number_tensor(const c10::Scalar& value) {
  at::Tensor tensor = c10::scalar_to_tensor(value);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

PlainForKernels::PlainForKernels() : guard_(registered_key()) {}

void bind_computation(Instruction& instruction, Computation computation) {
  instruction.kind = Instruction::Number;
  instruction.bound = std::make_unique<Computation>(std::move(computation));
  instruction.invoke = compute;
}

const Computation& computation_of(const Instruction& instruction) {
  return static_cast<const Computation&>(*instruction.bound);
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
        {"torch", "_sym_sqrt", 1, {square_root, false}},
    };
    auto* made = new Table();
    for (const Row& row : rows) made->emplace(imported(row.module, row.name).release(), &row);
    return made;
  });
  const auto found = table->find(step.target.get());
  if (step.kind != Step::Function || found == table->end() || !step.keywords.empty()) return std::nullopt;
  const Row& row = *found->second;
  return step.arguments.size() == row.operands ? std::optional(row.arithmetic) : std::nullopt;
}

}  // namespace gramme::native
