// Which composite operators may be replaced by the operators they call.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <string_view>

namespace gramme::native {

/// True for an operator that only calls other operators, below which autograd works (CompositeImplicit).
bool is_composite(const c10::OperatorHandle& op);
/// True if a call without autograd and autocast may be replaced by the calls it makes. That holds for operators that
/// decide only by types, sizes, strides and settings, never by data, and touch data only by other operators.
bool is_taken_apart(const c10::OperatorHandle& op);
/// True if such an operator makes the same calls for all sizes with equal ranks, types and numbers.
bool is_blind_to_sizes(const c10::OperatorHandle& op, c10::ArrayRef<const c10::IValue> inputs);

/// True for a known library operator in Python that only returns new tensors, with sizes determined by its arguments'
/// sizes.
bool is_known_of_library(const c10::OperatorHandle& op);
/// True for the autograd node of such an operator, whose backward only calls operators.
bool is_node_of_library(std::string_view name);

/// The process settings by which such operators choose kernels.
struct KernelSettings {
  bool flash, efficient, math, overrideable, reduces_in_half, mkldnn;
  static KernelSettings read();
  bool operator==(const KernelSettings&) const = default;
};

}  // namespace gramme::native
