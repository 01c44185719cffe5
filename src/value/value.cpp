#include "value/value.h"

namespace gramme::value {

const char* kind_name(Kind kind) {
  constexpr const char* kNames[] = {
#define KIND(name, text) #name,
#include "value/kinds.def"
#undef KIND
  };
  return kNames[static_cast<int>(kind)];
}

}  // namespace gramme::value
