// One condition under which a segment may be used again.
#pragma once
#include <string>

#include "aten/spec.h"
#include "base/ref.h"
#include "source/source.h"

namespace gramme::guards {

enum class Kind : uint8_t {
#define GUARD(name, operand, text) name,
#include "guards/guards.def"
#undef GUARD
};

struct Fact {
  const source::Source* source;
  Kind kind;
  Owned<> object;  // Type, Narrow, Constant, Identity, Keys, SetIs, Places, Code, Subclass, Content
  const source::Source* other = nullptr;   // SameAs, NotSameAs, NoOverlap, OtherStorage, Apart
  int64_t number = 0;                      // Length, Subclass, Content
  const aten::TensorSpec* spec = nullptr;  // Tensor

  /// "L['x'] is a float", "G['scale'] == 0.5", …
  std::string print() const;
};

const char* kind_name(Kind kind);
/// The float at the source, or in a tensor there, lies between these; `whole`: it is a whole number besides.
Fact between(const source::Source* source, double low, double high, bool whole = false);

}  // namespace gramme::guards
