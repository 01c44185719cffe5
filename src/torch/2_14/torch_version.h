// The version of torch that this folder describes.
#pragma once

namespace gramme::of_torch {

constexpr char kVersion[] = "2.14";
constexpr const char* kFolders[] = {"2_13", "2_14"};  // this one and those it builds on, the oldest first

}  // namespace gramme::of_torch
