// Composite operators that are replaced by what they call.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <string_view>

namespace gramme::native {

/// True if it calls other operators only, below which autograd is.
bool is_composite(const c10::OperatorHandle& op);
/// True if, where neither autograd nor autocast looks on, a call may be replaced by the calls it makes. So they may for
/// operators whose choices depend on types, sizes, strides and settings only, never on data, and that touch data by
/// other operators only.
bool is_taken_apart(const c10::OperatorHandle& op);
/// True if such an operator calls the same ones whatever the sizes, as long as ranks, types and numbers stay.
bool is_blind_to_sizes(const c10::OperatorHandle& op, c10::ArrayRef<const c10::IValue> inputs);

/// True for an operator of a library, in Python, of which this is known: results are new tensors whose sizes follow
/// from its arguments' sizes, whatever it does with data inside, and nothing else comes of a call.
bool is_known_of_library(const c10::OperatorHandle& op);
/// The node of such an operator: its backward calls operators, and does nothing besides.
bool is_node_of_library(std::string_view name);

/// The process' settings such operators choose their kernels by.
struct KernelSettings {
  bool flash, efficient, math, overrideable, reduces_in_half, mkldnn;
  static KernelSettings read();
  bool operator==(const KernelSettings&) const = default;
};

}  // namespace gramme::native
