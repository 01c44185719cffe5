// The C++ base of gramme.OptimizedModule: calling a compiled module costs what calling its entry costs.
#pragma once
#include <Python.h>

namespace gramme::runtime {

/// The type, ready to be put in the module and subclassed together with torch.nn.Module; null with an error set if that
/// failed. In Python: `_connect(entry, module, hooks)` says what a call runs, `_call_slowly(*args, **kwargs)` of the
/// subclass takes the calls that cannot go straight to the entry.
PyTypeObject* module_call_type();

}  // namespace gramme::runtime
