// Tables over kinds.def.
#include "value/traits.h"

namespace gramme::value {

const char* kind_name(Kind kind) {
  static constexpr const char* kNames[] = {
#define KIND(name, properties, answers, modelled, type, rebuilt, text) #name,
#include "value/kinds.def"
#undef KIND
  };
  return kNames[static_cast<size_t>(kind)];
}

bool is_mutable(Kind kind) { return has(kind, MUTABLE); }
bool owns_dict(Kind kind) { return has(kind, OWNS_DICT); }

}  // namespace gramme::value
