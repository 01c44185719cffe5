// Shard 0 of the operators' C++ signatures (typed.h): separate files compile in parallel.
#include "tape/signatures.h"

namespace gramme::native {

template Binder binder<0>(int);

}  // namespace gramme::native
