// Why a guard fails: the kind of change, the value's source, and a text with the old and the new value.
#pragma once
#include <cstdint>
#include <string>

namespace gramme {

enum class Mismatched : uint8_t {
#define MISMATCH(name, hint) name,
#include "base/mismatches.def"
#undef MISMATCH
};

struct Mismatch {
  Mismatched kind = Mismatched::Unreadable;
  std::string subject;  // the source, as guards print it; empty for state of the process
  std::string text;     // empty if nothing differs
  explicit operator bool() const { return !text.empty(); }

  const char* kind_name() const {
    switch (kind) {
#define MISMATCH(name, hint) \
  case Mismatched::name:     \
    return #name;
#include "base/mismatches.def"
#undef MISMATCH
    }
    return "";
  }
  /// What to do about it; empty if there is nothing to do.
  const char* hint() const {
    switch (kind) {
#define MISMATCH(name, hint) \
  case Mismatched::name:     \
    return hint;
#include "base/mismatches.def"
#undef MISMATCH
    }
    return "";
  }
};

}  // namespace gramme
