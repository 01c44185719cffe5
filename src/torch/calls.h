// What gramme knows of calls by name: src/torch/<version>/torch_calls.def and torch_operators.def.
#pragma once
#include <cstdint>
#include <string_view>

namespace gramme::of_torch {

enum CallTrait : uint16_t {
  Opaque = 1,
  Converts = 2,
  ReadsData = 4,
  TellsMetadata = 8,
  PassesOn = 16,
  OnlyCounts = 32,
  Overwrites = 64,
  CastsInside = 128,
  CastsInInference = 256,
};
/// True if the row of the method or function has this trait.
bool is_call(std::string_view name, CallTrait trait);

enum OperatorTrait : uint8_t { Apart = 1, Blind = 2, BothForms = 4, Collective = 8, Wraps = 16 };
/// The same for an operator "aten::name": the row for all overloads or the one for this overload.
bool is_operator(std::string_view name, std::string_view overload, OperatorTrait trait);

/// Kinds of dispatch keys under which a program can register a kernel in Python (torch_keys.def).
enum class KernelKey : uint8_t { Device, Fake, Batched, Other };
/// The kind of a dispatch key; Other for keys that gramme does not know.
KernelKey kernel_key(std::string_view name);

/// True if Python kernels of operators in this namespace are PyTorch's own and depend only on their arguments.
bool is_namespace_of_pytorch(std::string_view name);

}  // namespace gramme::of_torch
