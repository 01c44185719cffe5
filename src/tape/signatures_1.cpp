// Shard 1 of the operators' C++ signatures (typed.h): separate files compile in parallel.
#include "tape/signatures.h"

namespace gramme::native {

template Binder binder<1>(int);

}  // namespace gramme::native
