#include "native/signatures.h"

namespace gramme::native {

template Binder binder<0>(int);

}  // namespace gramme::native
