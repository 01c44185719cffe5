// The closed list of operators that can be fused. Square roots are excluded because MKL rounds them differently.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "passes/fused_plan.h"
#include "torch/calls.h"

namespace gramme::native {
namespace {

using Node = std::optional<FusedNode>;

bool is_supported(c10::ScalarType type) {
  static constexpr c10::ScalarType kTypes[] = {c10::kBool,  c10::kByte,   c10::kInt,          c10::kLong,
                                               c10::kFloat, c10::kDouble, c10::kComplexDouble};
  return std::ranges::find(kTypes, type) != std::end(kTypes);
}

/// True if elements are adjacent in some order of the dimensions.
bool is_dense(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  int64_t count = 1, reach = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (strides[d] < 0 || (sizes[d] > 1 && strides[d] == 0)) return false;
    count *= sizes[d];
    if (sizes[d] > 1) reach += (sizes[d] - 1) * strides[d];
  }
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] > 1) dims.emplace_back(strides[d], sizes[d]);
  std::ranges::sort(dims);
  int64_t wanted = 1;
  for (auto [stride, size] : dims) {
    if (stride != wanted) return false;
    wanted *= size;
  }
  return count > 0 && reach == count;
}

std::optional<c10::Scalar> number_of(const c10::IValue& value) {
  if (value.isInt()) return c10::Scalar(value.toInt());
  if (value.isDouble()) return c10::Scalar(value.toDouble());
  if (value.isBool()) return c10::Scalar(value.toBool());
  return std::nullopt;
}

/// False for integers that a double cannot represent.
bool is_exact(const c10::Scalar& number) {
  if (number.isComplex() || number.isSymbolic()) return false;
  constexpr int64_t kExact = int64_t{1} << 53;
  return !number.isIntegral(false) || (number.toLong() <= kExact && number.toLong() >= -kExact);
}

bool is_one(const OperatorArgument& argument) {
  const std::optional<c10::Scalar> number = number_of(argument.constant);
  return argument.kind == OperatorArgument::Constant && number && number->equal(1);
}

}  // namespace

FusedNodes::FusedNodes(const std::vector<Instruction>& instructions, const Recorder& recorder) : recorder_(recorder) {
  for (const auto& [r, tensor] : recorder.constants()) {
    if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->is_wrapped_number() || tensor.is_complex()) continue;
    const c10::Scalar number = tensor.item();
    if (is_exact(number)) numbers_.emplace(r, number);
  }
  for (const Instruction& instruction : instructions) {
    if (!instruction.call || instruction.call->op.operator_name().name != "aten::full") continue;
    const OperatorCall& call = *instruction.call;
    const std::optional<c10::Scalar> number = number_of(call.arguments[1].constant);
    if (number && is_exact(*number) && call.results[0].kind == OperatorResult::Tensor)
      fills_.emplace(call.results[0].registers[0], *number);
  }
}

bool FusedNodes::is_small(Register r) const {
  const Seen& seen = recorder_.seen(r);
  if (!seen.plain || seen.data_shaped || !is_supported(seen.dtype())) return false;
  int64_t count = 1;
  for (int64_t size : seen.sizes()) count *= size;
  return count > 0 && count <= kSmall;
}

Node FusedNodes::node_of(const Instruction& instruction) const {
  if (instruction.kind != Instruction::Operator || instruction.keys.empty() || !instruction.call) return {};
  const OperatorCall& call = *instruction.call;
  if (call.results.size() != 1 || call.results[0].kind != OperatorResult::Tensor) return {};
  const Register out = call.results[0].registers[0];
  if (out == kNone || !is_small(out) || !is_dense(recorder_.seen(out).sizes(), recorder_.seen(out).strides()))
    return {};
  for (const OperatorArgument& argument : call.arguments) {
    if (!argument.numbers.empty()) return {};
    for (Register r : argument.registers)
      if (r == kNone || !is_small(r) || recorder_.seen(r).storage == recorder_.seen(out).storage) return {};
  }
  Node node = any_node(call);
  if (node) node->out = out;
  return node;
}

Node FusedNodes::any_node(const OperatorCall& call) const {
  const std::string_view whole = call.op.operator_name().name;
  if (!whole.starts_with("aten::")) return {};
  const std::string_view name = whole.substr(6), overload = call.op.operator_name().overload_name;
  const auto is = [&](std::string_view wanted) { return name == wanted; };
  if (overload == "Tensor" || overload == "Scalar") {
    if (is("add")) return arithmetic(call, Operation::Add);
    if (is("sub")) return arithmetic(call, Operation::Subtract);
    if (is("mul")) return arithmetic(call, Operation::Multiply);
    if (is("div")) return arithmetic(call, Operation::Divide);
    if (is("eq")) return comparison(call, Operation::Equal);
    if (is("ne")) return comparison(call, Operation::NotEqual);
    if (is("lt")) return comparison(call, Operation::Less);
    if (is("le")) return comparison(call, Operation::LessEqual);
    if (is("gt")) return comparison(call, Operation::Greater);
    if (is("ge")) return comparison(call, Operation::GreaterEqual);
    if (is("bitwise_and")) return bits(call, Operation::And);
    if (is("bitwise_or")) return bits(call, Operation::Or);
    if (is("bitwise_xor")) return bits(call, Operation::Xor);
    if (is("rsub")) {
      Node node = arithmetic(call, Operation::Subtract);
      if (node) std::swap(node->operands[0], node->operands[1]);
      return node;
    }
    if (is("pow")) return {};
  }
  if (is("pow") && overload == "Tensor_Scalar") return power(call);
  if (is("where") && overload == "self") return choice(call);
  if (is("sum") && (overload.empty() || overload == "dim_IntList")) return sum(call);
  if (is("full") && overload.empty()) return filled(call, number_of(call.arguments[1].constant));
  if (is("argmax") && overload.empty()) return first(call, true);
  if (is("argmin") && overload.empty()) return first(call, false);
  if (!overload.empty() && overload != "dtype" && overload != "dtype_layout") return {};
  if (is("maximum")) return extremum(call, Operation::Maximum);
  if (is("minimum")) return extremum(call, Operation::Minimum);
  if (is("logical_and")) return bits(call, Operation::And);
  if (is("logical_or")) return bits(call, Operation::Or);
  if (is("logical_xor")) return bits(call, Operation::Xor);
  if (is("neg")) return of_one(call, Operation::Negative);
  if (is("abs")) return of_one(call, Operation::Absolute);
  if (is("logical_not") || is("bitwise_not")) return of_one(call, Operation::Not);
  if (is("clone") || of_torch::is_call(std::string(name), of_torch::Converts)) return copy(call);
  if (is("zeros") || is("zeros_like")) return filled(call, 0);
  if (is("ones") || is("ones_like")) return filled(call, 1);
  if (is("stack")) return joined(call, true);
  if (is("cat")) return joined(call, false);
  return {};
}

std::optional<FusedOperand> FusedNodes::operand(const OperatorArgument& argument) const {
  if (argument.kind == OperatorArgument::Tensor) {
    const Register r = argument.registers[0];
    const auto number = numbers_.find(r);
    return number == numbers_.end() ? FusedOperand{r} : FusedOperand{kNone, number->second};
  }
  if (argument.kind != OperatorArgument::Constant) return std::nullopt;
  const std::optional<c10::Scalar> number = number_of(argument.constant);
  if (!number || !is_exact(*number)) return std::nullopt;
  return FusedOperand{kNone, *number};
}

/// Arithmetic, computed in the result's type.
Node FusedNodes::arithmetic(const OperatorCall& call, Operation operation) const {
  if (call.arguments.size() > 2 && !is_one(call.arguments[2])) return {};
  const std::optional<FusedOperand> a = operand(call.arguments[0]), b = operand(call.arguments[1]);
  if (!a || !b || (a->tensor == kNone && b->tensor == kNone)) return {};
  const c10::ScalarType type = recorder_.seen(call.results[0].registers[0]).dtype();
  if (!kernel_of(operation, type)) return {};
  return FusedNode{FusedNode::Compute, kNone, operation, type, {*a, *b}};
}

/// A comparison in the operands' common type; a Python number takes the other's type.
Node FusedNodes::comparison(const OperatorCall& call, Operation operation) const {
  const std::optional<FusedOperand> a = operand(call.arguments[0]), b = operand(call.arguments[1]);
  if (!a || !b || (a->tensor == kNone && b->tensor == kNone)) return {};
  const c10::ScalarType type = dtype(a->tensor == kNone ? *b : *a);
  char place[16];
  for (const FusedOperand& one : {*a, *b}) {
    const bool fits = one.tensor == kNone ? put_literal(one.number, type, place) : dtype(one) == type;
    if (!fits) return {};
  }
  if (!kernel_of(operation, type)) return {};
  return FusedNode{FusedNode::Compute, kNone, operation, type, {*a, *b}};
}

/// maximum and minimum; of floats only with a non-zero number. Which of two zeros wins, and the bits of a NaN, depend
/// on the kernel and the element's place.
Node FusedNodes::extremum(const OperatorCall& call, Operation operation) const {
  Node node = arithmetic(call, operation);
  if (!node || !c10::isFloatingType(node->type)) return node;
  if (!is_safe_bound(node->operands[0]) && !is_safe_bound(node->operands[1])) return {};
  return node;
}

bool FusedNodes::is_safe_bound(const FusedOperand& operand) const {
  const auto fill = fills_.find(operand.tensor);
  if (operand.tensor != kNone && fill == fills_.end()) return false;
  const double number = (operand.tensor == kNone ? operand.number : fill->second).toDouble();
  return number != 0 && !std::isnan(number);
}

Node FusedNodes::bits(const OperatorCall& call, Operation operation) const {
  const bool truths = call.op.operator_name().name.starts_with("aten::logical");
  Node node = comparison(call, operation);
  if (!node || (truths && node->type != c10::kBool)) return {};
  if (node->operands[0].tensor == kNone || node->operands[1].tensor == kNone) return {};
  return node;
}

Node FusedNodes::of_one(const OperatorCall& call, Operation operation) const {
  const std::optional<FusedOperand> a = operand(call.arguments[0]);
  const c10::ScalarType type = recorder_.seen(call.results[0].registers[0]).dtype();
  if (!a || a->tensor == kNone || dtype(*a) != type || !kernel_of(operation, type)) return {};
  return FusedNode{FusedNode::Compute, kNone, operation, type, {*a}};
}

/// x ** 2, which kernels compute as x * x.
Node FusedNodes::power(const OperatorCall& call) const {
  const std::optional<FusedOperand> base = operand(call.arguments[0]), exponent = operand(call.arguments[1]);
  const c10::ScalarType type = recorder_.seen(call.results[0].registers[0]).dtype();
  if (!base || base->tensor == kNone || !exponent || exponent->tensor != kNone || !exponent->number.equal(2)) return {};
  if (dtype(*base) != type || !kernel_of(Operation::Multiply, type)) return {};
  return FusedNode{FusedNode::Compute, kNone, Operation::Multiply, type, {*base, *base}};
}

Node FusedNodes::choice(const OperatorCall& call) const {
  FusedNode node{FusedNode::Compute, kNone, Operation::Choose, recorder_.seen(call.results[0].registers[0]).dtype()};
  for (const OperatorArgument& argument : call.arguments) {
    if (argument.kind != OperatorArgument::Tensor) return {};
    node.operands.push_back({argument.registers[0]});
  }
  if (dtype(node.operands[0]) != c10::kBool) return {};
  for (size_t i : {1, 2})
    if (dtype(node.operands[i]) != node.type) return {};
  return node;
}

Node FusedNodes::copy(const OperatorCall& call) const {
  if (call.arguments[0].kind != OperatorArgument::Tensor) return {};
  const FusedOperand from{call.arguments[0].registers[0]};
  const c10::ScalarType type = recorder_.seen(call.results[0].registers[0]).dtype();
  if (!mover(type, dtype(from))) return {};
  return FusedNode{FusedNode::Copy, kNone, Operation::Add, type, {from}};
}

Node FusedNodes::filled(const OperatorCall& call, std::optional<c10::Scalar> number) const {
  const c10::ScalarType type = recorder_.seen(call.results[0].registers[0]).dtype();
  char place[16];
  if (!number || !is_exact(*number)) return {};
  if (type == c10::kBool && !number->isBoolean()) number = c10::Scalar(number->toDouble() != 0);
  if (!put_literal(*number, type, place)) return {};
  return FusedNode{FusedNode::Fill, kNone, Operation::Add, type, {FusedOperand{kNone, *number}}};
}

/// Sums of integers and bools; of floats only two, since kernels choose the order of more.
Node FusedNodes::sum(const OperatorCall& call) const {
  const Register out = call.results[0].registers[0];
  const std::optional<FusedOperand> from = operand(call.arguments[0]);
  if (!from || from->tensor == kNone || !summer(dtype(*from))) return {};
  const bool floats = c10::isFloatingType(dtype(*from));
  if (recorder_.seen(out).dtype() != (floats ? dtype(*from) : c10::kLong)) return {};
  const auto rank = static_cast<int64_t>(recorder_.seen(from->tensor).sizes().size());
  FusedNode node{FusedNode::Sum, kNone, Operation::Add, c10::kLong, {*from}};
  const bool along = call.op.operator_name().overload_name == "dim_IntList";
  if (along && call.arguments[1].constant.isIntList())
    for (int64_t dim : call.arguments[1].constant.toIntVector()) node.dims.push_back(dim < 0 ? dim + rank : dim);
  if (along && !call.arguments[1].constant.isIntList() && !call.arguments[1].constant.isNone()) return {};
  if (node.dims.empty())
    for (int64_t dim = 0; dim < rank; ++dim) node.dims.push_back(dim);
  if (rank == 0) node.dims.clear();
  int64_t each = 1;
  for (int64_t dim : node.dims) each *= recorder_.seen(from->tensor).sizes()[static_cast<size_t>(dim)];
  if (floats && each > 2) return {};
  return node;
}

/// argmax(x, dim), argmin(x, dim)
Node FusedNodes::first(const OperatorCall& call, bool largest) const {
  const std::optional<FusedOperand> from = operand(call.arguments[0]);
  const c10::IValue& dim = call.arguments[1].constant;
  if (!from || from->tensor == kNone || !first_finder(dtype(*from), largest) || !dim.isInt()) return {};
  const auto rank = static_cast<int64_t>(recorder_.seen(from->tensor).sizes().size());
  if (rank == 0) return {};
  const FusedNode::Kind kind = largest ? FusedNode::Largest : FusedNode::Smallest;
  return FusedNode{kind, kNone, Operation::Add, c10::kLong, {*from}, {dim.toInt() + (dim.toInt() < 0 ? rank : 0)}};
}

/// cat and stack along the first dimension.
Node FusedNodes::joined(const OperatorCall& call, bool stacks) const {
  const Register out = call.results[0].registers[0];
  const bool first = call.arguments[1].constant.isInt() && call.arguments[1].constant.toInt() == 0;
  const Seen& seen = recorder_.seen(out);
  int64_t wanted = 1;
  for (size_t d = seen.sizes().size(); d-- > 0;) {
    if (seen.sizes()[d] > 1 && seen.strides()[d] != wanted) return {};
    wanted *= seen.sizes()[d];
  }
  if (!first || call.arguments[0].kind != OperatorArgument::Tensors) return {};
  FusedNode node{FusedNode::Join, kNone, Operation::Add, seen.dtype()};
  for (Register r : call.arguments[0].registers) {
    if (!mover(node.type, recorder_.seen(r).dtype())) return {};
    if (!stacks && recorder_.seen(r).sizes().size() != seen.sizes().size()) return {};
    node.operands.push_back({r});
  }
  return node;
}

}  // namespace gramme::native
