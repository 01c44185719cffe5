// The models of C functions and types, registered once per process in protocol's tables.
#pragma once

namespace gramme::builtins {

void register_python();  // builtins and the standard library: python_*.cpp
void register_torch();   // torch: torch_*.cpp

}  // namespace gramme::builtins
