// Makes a native program of a torch.fx.GraphModule.
#pragma once
#include "native/program.h"

namespace gramme::native {

/// Follows the module's graph as it is now. Throws PythonError.
Program from_fx(PyObject* graph_module);

}  // namespace gramme::native
