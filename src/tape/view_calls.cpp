// Recognises operator calls that are view steps.
#include <string_view>

#include "tape/geometry.h"

namespace gramme::native {
namespace {

std::optional<Amount> amount_of(const Numeral& number) {
  if (number.kind == Numeral::Whole) return Amount{number.index};
  if (number.kind != Numeral::Constant || !number.constant.isIntegral(false)) return std::nullopt;
  return Amount{-1, number.constant.toLong()};
}

std::optional<Amount> amount_of(const OperatorArgument& argument) {
  if (argument.kind == OperatorArgument::Number) return amount_of(argument.numbers[0]);
  if (argument.kind != OperatorArgument::Constant || !argument.constant.isInt()) return std::nullopt;
  return Amount{-1, argument.constant.toInt()};
}

std::optional<std::vector<Amount>> amounts_of(const OperatorArgument& argument) {
  std::vector<Amount> result;
  if (argument.kind == OperatorArgument::Integers) {
    for (const Numeral& number : argument.numbers) {
      const std::optional<Amount> amount = amount_of(number);
      if (!amount) return std::nullopt;
      result.push_back(*amount);
    }
    return result;
  }
  if (argument.kind != OperatorArgument::Constant || !argument.constant.isIntList()) return std::nullopt;
  for (int64_t number : argument.constant.toIntVector()) result.push_back({-1, number});
  return result;
}

std::optional<int64_t> constant_of_call(const OperatorCall& call, size_t argument) {
  const std::optional<Amount> amount = amount_of(call.arguments[argument]);
  return amount && amount->number < 0 ? std::optional(amount->constant) : std::nullopt;
}

template <ViewStep::Kind kind>
std::optional<ViewStep> by_sizes(const OperatorCall& call, size_t) {
  std::optional<std::vector<Amount>> sizes = amounts_of(call.arguments[1]);
  if (!sizes) return std::nullopt;
  return ViewStep{kind, 0, 0, std::move(*sizes)};
}

std::optional<ViewStep> contiguous(const OperatorCall& call, size_t) {
  const c10::IValue& format = call.arguments[1].constant;
  if (!format.isInt() || format.toMemoryFormat() != c10::MemoryFormat::Contiguous) return std::nullopt;
  return ViewStep{ViewStep::Contiguous};
}

std::optional<ViewStep> transpose(const OperatorCall& call, size_t) {
  const auto a = constant_of_call(call, 1), b = constant_of_call(call, 2);
  if (!a || !b) return std::nullopt;
  return ViewStep{ViewStep::Transpose, *a, *b};
}

std::optional<ViewStep> unsqueeze(const OperatorCall& call, size_t) {
  const auto d = constant_of_call(call, 1);
  if (!d) return std::nullopt;
  return ViewStep{ViewStep::Unsqueeze, *d};
}

/// select: x[:, …, :, i], with the dimension counted from the front.
std::optional<ViewStep> select(const OperatorCall& call, size_t) {
  const std::optional<Amount> at = amount_of(call.arguments[2]);
  const auto d = constant_of_call(call, 1);
  if (!at || !d || *d < 0) return std::nullopt;
  ViewStep step{ViewStep::Index};
  step.items.assign(static_cast<size_t>(*d), IndexItem{IndexItem::Slice, {}, {-1, IndexItem::kToTheEnd}});
  step.items.push_back({IndexItem::Integer, *at});
  return step;
}

std::optional<ViewStep> split(const OperatorCall& call, size_t result) {
  const std::optional<Amount> size = amount_of(call.arguments[1]);
  const auto d = constant_of_call(call, 2);
  if (!size || !d) return std::nullopt;
  const auto pieces = static_cast<int64_t>(call.results[0].registers.size());
  return ViewStep{ViewStep::Piece, *d, static_cast<int64_t>(result), {*size, {-1, pieces}}};
}

struct Row {
  std::string_view name, overload;
  std::optional<ViewStep> (*make)(const OperatorCall& call, size_t result);
};

constexpr Row kOperators[] = {
    {"aten::view", "", by_sizes<ViewStep::View>},
    {"aten::reshape", "", by_sizes<ViewStep::Reshape>},
    {"aten::expand", "", by_sizes<ViewStep::Expand>},
    {"aten::permute", "", by_sizes<ViewStep::Permute>},
    {"aten::contiguous", "", contiguous},
    {"aten::transpose", "int", transpose},
    {"aten::unsqueeze", "", unsqueeze},
    {"aten::select", "int", select},
    {"aten::split", "Tensor", split},
};

}  // namespace

std::optional<ViewStep> view_step(const OperatorCall& call, size_t result) {
  const c10::OperatorName& name = call.op.operator_name();
  for (const Row& row : kOperators)
    if (row.name == name.name && row.overload == name.overload_name) return row.make(call, result);
  return std::nullopt;
}

}  // namespace gramme::native
