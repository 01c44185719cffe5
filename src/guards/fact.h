// One condition under which a segment may be used again.
#pragma once
#include <string>

#include "aten/spec.h"
#include "base/ref.h"
#include "source/source.h"

namespace gramme::guards {

enum class Kind : uint8_t {
#define GUARD(name, ...) name,
#include "guards/guards.def"
#undef GUARD
};

/// What a fact of a kind is compared with.
enum class Operand : uint8_t { None, Object, Number, Both, Other, Spec };

struct Fact {
  const source::Source* source;
  Kind kind;
  // Those that the row of its kind names:
  Owned<> object;
  const source::Source* other = nullptr;
  int64_t number = 0;
  const aten::TensorSpec* spec = nullptr;

  /// "L['x'] is a float", "G['scale'] == 0.5", …
  std::string print() const;
};

const char* kind_name(Kind kind);
Operand operand(Kind kind);
/// True if it has what its row says that it is compared with.
bool is_complete(const Fact& fact);
/// The float at the source, or in a tensor there, lies between these; `whole`: it is a whole number besides.
Fact between(const source::Source* source, double low, double high, bool whole = false);

}  // namespace gramme::guards
