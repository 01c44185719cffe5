// Finds an operator's row in the generated table and binds its C++ signature; otherwise pushes boxed values.
#include "tape/invoke.h"

#include <ATen/core/stack.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "tape/numerals.h"
#include "tape/typed.h"

namespace gramme::native {
namespace {

// ---- the table

struct Row {
  std::string_view name;
  int signature;
};

#define SIGNATURE(number, ...)
#define OPERATOR(number, name) {name, number},
constexpr Row kOperators[] = {
#include "torch_signatures.def"
};
#undef OPERATOR
#undef SIGNATURE
static_assert(std::ranges::is_sorted(kOperators, {}, &Row::name));

const Row* row_of(const c10::OperatorHandle& op) {
  const c10::OperatorName& parts = op.operator_name();
  const std::string name = parts.overload_name.empty() ? parts.name : parts.name + "." + parts.overload_name;
  const Row* row = std::ranges::lower_bound(kOperators, std::string_view(name), {}, &Row::name);
  return row != std::end(kOperators) && row->name == name ? row : nullptr;
}

Binder binder_of(int signature) {
  static constexpr Binder (*kBinders[kShards])(int) = {&binder<0>, &binder<1>, &binder<2>, &binder<3>};
  return kBinders[signature % kShards](signature / kShards);
}

// ---- boxed calls

c10::IValue box(const OperatorArgument& argument, const Run& run) {
  switch (argument.kind) {
    case OperatorArgument::Constant:
      return argument.constant;
    case OperatorArgument::Tensor:
      return *run.tensors[argument.registers[0]];
    case OperatorArgument::Tensors: {
      c10::List<at::Tensor> list;
      list.reserve(argument.registers.size());
      for (Register r : argument.registers) list.push_back(*run.tensors[r]);
      return list;
    }
    case OperatorArgument::MaybeTensors:
      return maybe_tensors(argument.registers, run);
    case OperatorArgument::Number:
    case OperatorArgument::NumberTensor:
    case OperatorArgument::Integers:
    case OperatorArgument::Floats:
    case OperatorArgument::Scalars:
      return numbers_at(argument, run);
  }
  return {};
}

void put(c10::IValue&& value, const OperatorResult& result, const Instruction& instruction, Run& run) {
  if (result.kind == OperatorResult::Tensor) run.own[result.registers[0]] = std::move(value).toTensor();
  if (result.kind == OperatorResult::Tensors) put(value.toTensorVector(), result.registers, instruction, run);
}

void invoke_boxed(const Instruction& instruction, Run& run) {
  const OperatorCall& call = *instruction.call;
  torch::jit::Stack stack;
  stack.reserve(std::max(call.arguments.size(), call.results.size()));
  for (const OperatorArgument& argument : call.arguments) stack.push_back(box(argument, run));
  if (goes_straight(instruction, run))
    call.op.redispatchBoxed(instruction.keys, &stack);
  else
    call.op.callBoxed(&stack);
  TORCH_CHECK(stack.size() == call.results.size(), call.op.operator_name(), " left ", stack.size(), " results");
  for (size_t i = 0; i < stack.size(); ++i) put(std::move(stack[i]), call.results[i], instruction, run);
}

}  // namespace

void check_count(size_t tensors, size_t registers, const Instruction& instruction) {
  TORCH_CHECK(tensors == registers, instruction.call->op.operator_name(), " returned ", tensors,
              " tensors where the recorded call returned ", registers);
}

void bind_boxed(Instruction& instruction) {
  const OperatorCall& call = *instruction.call;
  const c10::FunctionSchema& schema = call.op.schema();
  TORCH_CHECK(call.arguments.size() == schema.arguments().size() && call.results.size() == schema.returns().size(),
              "a call of ", schema, " has ", call.arguments.size(), " arguments and ", call.results.size(), " results");
  instruction.bound = nullptr;
  instruction.invoke = &invoke_boxed;
  instruction.typed = false;
}

void bind_operator(Instruction& instruction) {
  bind_boxed(instruction);
  const Row* row = row_of(instruction.call->op);
  if (!row) return;
  try {
    binder_of(row->signature)(instruction);
  } catch (const c10::Error&) {
    // No slot for an argument, or no place for a result of its C++ type: stays boxed.
  }
}

[[gnu::hot]] bool unwatched() { return !at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value(); }

size_t typed_signatures() {
  return static_cast<size_t>(std::ranges::max(kOperators, {}, &Row::signature).signature) + 1;
}

}  // namespace gramme::native
