#include "value/value.h"

namespace gramme::value {
namespace {

enum Property : uint8_t { MUTABLE = 1, OWNS_DICT = 2 };

struct Row {
  const char* name;
  int properties;
};

constexpr Row kRows[] = {
#define KIND(name, properties, type, rebuilt, text) {#name, properties},
#include "value/kinds.def"
#undef KIND
};

const Row& row(Kind kind) { return kRows[static_cast<int>(kind)]; }

}  // namespace

const char* kind_name(Kind kind) { return row(kind).name; }
bool is_mutable(Kind kind) { return row(kind).properties & MUTABLE; }
bool owns_dict(Kind kind) { return row(kind).properties & OWNS_DICT; }

}  // namespace gramme::value
