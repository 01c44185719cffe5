// Precompiled for the files of GRAMME_TENSOR_ROOMS in CMakeLists.txt that hold tensors and do not call operators: a
// quarter of what loading torch_pch.h costs each. It is included before every file there, so a file still names the
// headers it uses.
#pragma once

#include "std_pch.h"
//
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>
