// The version of torch that this folder is about.
#pragma once

namespace gramme::torch_names {

constexpr char kVersion[] = "2.15";
constexpr char kFolder[] = "2_15";

}  // namespace gramme::torch_names
