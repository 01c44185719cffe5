// Composite operators that are replaced by what they call.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

namespace gramme::native {

/// Does it call other operators only, below which autograd is?
bool is_composite(const c10::OperatorHandle& op);
/// Where neither autograd nor autocast looks on, may a call be replaced by the calls it makes? So they may for
/// operators whose choices depend on types, sizes, strides and settings only, never on data, and that touch data by
/// other operators only.
bool is_taken_apart(const c10::OperatorHandle& op);
/// Does such an operator call the same ones whatever the sizes, as long as ranks, types and numbers stay?
bool is_blind_to_sizes(const c10::OperatorHandle& op, c10::ArrayRef<const c10::IValue> inputs);

/// The process' settings such operators choose their kernels by.
struct KernelSettings {
  bool flash, efficient, math, overrideable, mkldnn;
  static KernelSettings read();
  bool operator==(const KernelSettings&) const = default;
};

}  // namespace gramme::native
