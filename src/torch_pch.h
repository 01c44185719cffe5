// Precompiled for the rooms that call torch's operators (GRAMME_TORCH_ROOMS in CMakeLists.txt). It is included before
// every file there, so a file still names the headers it uses. Keep it to what most of them use, and pybind11 out of
// it: every file that sees it compiles its functions once more (aten/python.h).
#pragma once

#include <Python.h>
//
#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>
