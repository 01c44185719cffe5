#include "aten/classes.h"

#include <torch/csrc/autograd/python_variable.h>

namespace gramme::aten {

bool is_exact_tensor_type(PyTypeObject* type) { return THPVariable_CheckTypeExact(type); }

}  // namespace gramme::aten
