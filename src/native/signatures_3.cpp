#include "native/signatures.h"

namespace gramme::native {

template Binder binder<3>(int);

}  // namespace gramme::native
