#include "aten/classes.h"

#include <torch/csrc/autograd/python_variable.h>

namespace gramme::aten {

bool is_plain_class(PyTypeObject* type) { return THPVariable_CheckTypeExact(type); }

}  // namespace gramme::aten
