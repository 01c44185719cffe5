// Registers the models of C functions and types in protocol's tables, once per process.
#pragma once

namespace gramme::builtins {

void register_python();  // builtins and the standard library: python_*.cpp
void register_torch();   // torch: torch_*.cpp

}  // namespace gramme::builtins
