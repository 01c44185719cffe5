#include "native/signatures.h"

namespace gramme::native {

template Binder binder<1>(int);

}  // namespace gramme::native
