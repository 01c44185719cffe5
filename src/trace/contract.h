// What a capture may rely on: what its backend does with graphs (contract.def), and what the caller allows.
#pragma once
#include <optional>
#include <string_view>

namespace gramme::trace {

/// See contract.def.
struct Contract {
  bool as_is, locates, differentiates, functionalizes, symbols, runs;
  bool breaks = true;        // the program may become more than one graph: fullgraph=False
  bool exact_numpy = false;  // graphs call NumPy itself for what NumPy computes
  /// True if graphs may compute with optimizers' step counts, whose bounds are then guarded.
  bool counts() const { return as_is || symbols; }
};

/// The row with this attribute; nullopt if there is none.
constexpr std::optional<Contract> contract_named(std::string_view name) {
#define CONTRACT(row, attribute, as_is, locates, differentiates, functionalizes, symbols, runs) \
  if (name == attribute) return Contract{as_is, locates, differentiates, functionalizes, symbols, runs};
#include "trace/contract.def"
#undef CONTRACT
  return std::nullopt;
}

/// The contract of a backend that promises nothing.
inline constexpr Contract kClosed = *contract_named("");

}  // namespace gramme::trace
