// A fact: one condition about one object under which a segment may be used again. guards.def lists the kinds.
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

/// The operand that the facts of a kind are compared with.
enum class Operand : uint8_t { None, Object, Number, Both, Other, Spec };

struct Fact {
  const source::Source* source;
  Kind kind;
  // The operands that its kind's row in guards.def names:
  Owned<> object;
  const source::Source* other = nullptr;
  int64_t number = 0;
  const aten::TensorSpec* spec = nullptr;

  /// "L['x'] is a float", "G['scale'] == 0.5", …
  std::string print() const;
};

const char* kind_name(Kind kind);
Operand operand(Kind kind);
/// True if the fact has the operands that its row requires.
bool is_complete(const Fact& fact);
/// The fact that the float at the source, or in a tensor there, lies in an interval; `whole`: and is a whole number.
Fact between(const source::Source* source, double low, double high, bool whole = false);

}  // namespace gramme::guards
