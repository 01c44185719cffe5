// Compares Python numbers with the ranges of dtypes, and result sizes with a limit.
#include "meta/overflow.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "meta/numbers.h"

namespace gramme::meta {
namespace {

bool fits(double value, c10::ScalarType dtype) {
  const bool real = c10::isFloatingType(dtype) || c10::isComplexType(dtype);
  if (!std::isfinite(value)) return real;
  if (dtype == c10::kByte) return value >= 0 && value <= 255;
  if (dtype == c10::kChar) return value >= -128 && value <= 127;
  if (dtype == c10::kShort) return std::abs(value) < 32768;
  if (dtype == c10::kInt) return std::abs(value) < 2147483648.0;
  if (dtype == c10::kLong) return std::abs(value) < 9.2e18;
  if (dtype == c10::kHalf || dtype == c10::kComplexHalf) return std::abs(value) <= 65504;
  if (dtype == c10::kBFloat16) return std::abs(value) <= std::numeric_limits<c10::BFloat16>::max();
  if (dtype == c10::kFloat || dtype == c10::kComplexFloat) return std::abs(value) <= std::numeric_limits<float>::max();
  return dtype == c10::kDouble || dtype == c10::kComplexDouble || dtype == c10::kBool;
}

template <class Visit>
void each_scalar(const Argument& argument, Visit&& visit) {
  if (argument.kind == Argument::Constant && argument.object &&
      (PyFloat_Check(argument.object) || PyLong_Check(argument.object))) {
    const double value = PyFloat_AsDouble(argument.object);
    if (PyErr_Occurred()) PyErr_Clear();
    visit(value);
  }
  for (uint32_t i = 0; i < argument.count; ++i) each_scalar(argument.items[i], visit);
}

/// Visits numbers that are converted to the dtype; the memo key has no other values.
template <class Visit>
void each_scalar(const Call& call, Visit&& visit) {
  const NumberPlaces places(call);
  for (uint32_t i = 0; i < call.arg_count; ++i)
    if (places.at(i) != Takes::Mixes) each_scalar(call.args[i], visit);
  for (uint32_t i = 0; i < call.keyword_count; ++i)
    if (places.under(call.keyword_names[i]) != Takes::Mixes) each_scalar(call.keyword_args[i], visit);
}

}  // namespace

bool overflows(const Call& call, const Outcome& outcome) {
  bool found = false;
  auto check = [&](const Record& record) {
    const auto dtype = static_cast<c10::ScalarType>(record.dtype);
    each_scalar(call, [&](double value) { found |= !fits(value, dtype); });
  };
  if (outcome.result.record) check(*outcome.result.record);
  for (const Mutation& mutation : outcome.mutations) check(*mutation.record);
  return found;
}

bool is_huge(const Result& result, shape::Assumptions* assumptions) {
  constexpr double kHuge = double{1LL << 32};
  if (result.record && result.view_of < 0 && result.same_as < 0) {
    const Record& record = *physical(result.record);
    double bytes = static_cast<double>(c10::elementSize(static_cast<c10::ScalarType>(record.dtype)));
    for (shape::SymInt size : record.sizes)
      bytes *= static_cast<double>(size.is_number() ? *size.number() : assumptions->hint(size.expr()).value_or(1));
    if (bytes >= kHuge) return true;
  }
  return std::any_of(result.items.begin(), result.items.end(),
                     [&](const Result& item) { return is_huge(item, assumptions); });
}

}  // namespace gramme::meta
