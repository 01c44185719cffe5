// The version of torch that this folder is about.
#pragma once

namespace gramme::of_torch {

constexpr char kVersion[] = "2.13";
constexpr char kFolder[] = "2_13";

}  // namespace gramme::of_torch
