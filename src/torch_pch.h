// Precompiled for the rooms that need torch (GRAMME_TORCH_ROOMS in CMakeLists.txt). It is included before every file
// there, so a file still names the headers it uses. Keep it to what most of them use: every file pays for loading all
// of it, and <torch/extension.h> takes as long to load precompiled (11 s) as these take to parse without.
#pragma once

#include <Python.h>
//
#include <ATen/ATen.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/utils/pybind.h>
