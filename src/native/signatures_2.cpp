#include "native/signatures.h"

namespace gramme::native {

template Binder binder<2>(int);

}  // namespace gramme::native
