// Shard 3 of the operators' C++ signatures (typed.h): separate files compile in parallel.
#include "tape/signatures.h"

namespace gramme::native {

template Binder binder<3>(int);

}  // namespace gramme::native
