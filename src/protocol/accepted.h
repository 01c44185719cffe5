// The number and names of arguments that a callable accepts, from the flags of its definition and the signature in its
// documentation. A call that does not fit never reaches a model; CPython raises its own error.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// True if the callable accepts this number of arguments and these names, or if nothing is known. Arguments include
/// self.
bool takes_as_many(PyObject* callable, const Args& args);

}  // namespace gramme::protocol
