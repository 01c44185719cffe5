// In what number and by which names a C or Python callable takes arguments, as it says itself: by the flags of its
// definition and the signature in its documentation. A call that it refuses is never a model's to answer.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// True if the callable takes as many, and of these names. Self is among the arguments. Where nothing is said: yes.
bool takes_as_many(PyObject* callable, const Args& args);

}  // namespace gramme::protocol
