// The version of torch that this folder is about.
#pragma once

namespace gramme::torch_names {

constexpr char kVersion[] = "2.13";
constexpr char kFolder[] = "2_13";

}  // namespace gramme::torch_names
