// A switch over the supported operations on doubles, with Python's results or a fall-back to the Python call.
#include "passes/floats.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <string_view>

#include "base/imported.h"
#include "base/once.h"

namespace gramme::native {
namespace {

enum class Operation : uint8_t { Add, Subtract, Multiply, Divide, Power, Negate, Greater, Lesser, Item };

std::optional<Operation> operation_of(const Step& step) {
  if (!step.keywords.empty() || step.arguments.empty()) return std::nullopt;
  if (step.kind == Step::Method) {
    static PyObject* const item = intern("item");
    const bool reads = step.target.get() == item && step.arguments.size() == 1;
    return reads ? std::optional(Operation::Item) : std::nullopt;
  }
  struct Row {
    PyObject* function;
    Operation operation;
    size_t operands;
  };
  const std::vector<Row>* const rows = once([] {
    auto row = [](const char* name, Operation operation, size_t operands = 2, const char* module = "_operator") {
      return Row{imported(module, name).release(), operation, operands};
    };
    return new std::vector<Row>{row("add", Operation::Add),
                                row("sub", Operation::Subtract),
                                row("mul", Operation::Multiply),
                                row("truediv", Operation::Divide),
                                row("pow", Operation::Power),
                                row("neg", Operation::Negate, 1),
                                row("max", Operation::Greater, 2, "builtins"),
                                row("min", Operation::Lesser, 2, "builtins")};
  });
  for (const Row& row : *rows)
    if (row.function == step.target.get() && row.operands == step.arguments.size()) return row.operation;
  return std::nullopt;
}

/// A constant float, or one of the run.
struct Factor {
  double constant = 0;
  int32_t object = -1;

  bool read(const Run& run, double& value) const {
    if (object < 0) return value = constant, true;
    PyObject* now = run.objects[object].get();
    if (!now || !PyFloat_CheckExact(now)) return false;
    return value = PyFloat_AS_DOUBLE(now), true;
  }
};

/// The operand as a float; ints are converted as Python does.
std::optional<Factor> factor_of(const Operand& operand, const std::vector<Place>& places) {
  if (operand.kind == Operand::Value) {
    const Place& place = places[static_cast<size_t>(operand.value)];
    return place.kind == Place::Object ? std::optional(Factor{0, place.index}) : std::nullopt;
  }
  if (operand.kind != Operand::Constant) return std::nullopt;
  PyObject* constant = operand.object.get();
  if (PyFloat_CheckExact(constant)) return Factor{PyFloat_AS_DOUBLE(constant)};
  int overflow = 0;
  const long value = PyLong_CheckExact(constant) ? PyLong_AsLongAndOverflow(constant, &overflow) : 0;
  constexpr long kExact = 1L << 53;
  const bool whole = PyLong_CheckExact(constant) && !overflow && -kExact <= value && value <= kExact;
  return whole ? std::optional(Factor{static_cast<double>(value)}) : std::nullopt;
}

bool is_int(const Operand& operand) { return operand.kind == Operand::Constant && PyLong_Check(operand.object.get()); }

/// True if the result is one of the operands unchanged.
bool gives_operand(Operation operation) { return operation == Operation::Greater || operation == Operation::Lesser; }

struct FloatCall : PythonCall {
  Operation operation;
  Factor left, right;
};

bool item(const at::Tensor& tensor, double& result) {
  const bool plain = tensor.dim() == 0 && tensor.is_cpu() && tensor.layout() == c10::kStrided && !tensor.is_conj() &&
                     !tensor.is_neg() && !tensor.key_set().has_any(c10::python_ks) && tensor.has_storage();
  if (!plain || !tensor.storage().data()) return false;
  if (tensor.scalar_type() == c10::kFloat) return result = *tensor.const_data_ptr<float>(), true;
  if (tensor.scalar_type() == c10::kDouble) return result = *tensor.const_data_ptr<double>(), true;
  return false;
}

/// Computes the result; false where Python would raise or return another type.
bool compute(const FloatCall& call, const Run& run, double& result) {
  if (call.operation == Operation::Item) return item(*run.tensors[call.operands[0].second.index], result);
  double a = 0, b = 0;
  if (!call.left.read(run, a) || !call.right.read(run, b)) return false;
  switch (call.operation) {
    case Operation::Add:
      return result = a + b, true;
    case Operation::Subtract:
      return result = a - b, true;
    case Operation::Multiply:
      return result = a * b, true;
    case Operation::Divide:
      return result = a / b, b != 0;
    case Operation::Negate:
      return result = -a, true;
    case Operation::Greater:  // comparisons with NaN as in Python
      return result = b > a ? b : a, true;
    case Operation::Lesser:
      return result = b < a ? b : a, true;
    case Operation::Power:
      if (!(a > 0) || !std::isfinite(a) || !std::isfinite(b)) return false;
      errno = 0;
      result = std::pow(a, b);
      return errno == 0 && std::isfinite(result);
    case Operation::Item:
      break;
  }
  return false;
}

[[gnu::hot]] void run_floats(const Instruction& instruction, Run& run) {
  const auto& call = static_cast<const FloatCall&>(*instruction.bound);
  double result = 0;
  if (!compute(call, run, result)) return run_python(instruction, run);
  WithGil gil(run);
  run.objects[call.result.index] = take(PyFloat_FromDouble(result));
}

}  // namespace

std::unique_ptr<PythonCall> float_call(const Step& step, const std::vector<Place>& places, const Place& result) {
  const std::optional<Operation> operation = operation_of(step);
  if (!operation || result.kind != Place::Object) return nullptr;
  auto call = std::make_unique<FloatCall>();
  call->operation = *operation;
  if (operation == Operation::Item) {
    if (step.arguments[0].kind != Operand::Value) return nullptr;
    if (places[static_cast<size_t>(step.arguments[0].value)].kind != Place::Tensor) return nullptr;
    return call;
  }
  const std::optional<Factor> left = factor_of(step.arguments[0], places);
  const std::optional<Factor> right =
      step.arguments.size() > 1 ? factor_of(step.arguments[1], places) : std::optional(Factor());
  if (!left || !right || (left->object < 0 && right->object < 0)) return nullptr;
  if (gives_operand(*operation) && std::ranges::any_of(step.arguments, is_int)) return nullptr;
  call->left = *left;
  call->right = *right;
  return call;
}

Invoke invoke_of_floats() { return run_floats; }

}  // namespace gramme::native
