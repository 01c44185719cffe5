// Precompiled for the rooms that need torch (GRAMME_TORCH_ROOMS in CMakeLists.txt). It is included before every file
// there, so a file still names the headers it uses. Keep it to what most of them use, and pybind11 out of it, which
// <torch/csrc/autograd/python_variable.h> includes: every file that sees it compiles its functions once more, 3 s.
#pragma once

#include <Python.h>
//
#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>
