// Queries of the columns of kinds.def, and dispatch over all kinds that have a trait.
//
//   if (!has(seen->kind, SIZED)) raise(…);
//   return as_kind<SIZED>(seen, [&](auto* container) { return size_of(trace, container); });
#pragma once
#include "base/error.h"
#include "value/value.h"

namespace gramme::value {

/// The words of the columns `properties`, `answers` and `modelled`.
enum Trait : uint32_t {
  MUTABLE = 1 << 0,
  OWNS_DICT = 1 << 1,
  BY_OBJECT = 1 << 2,
  SUBCLASSED = 1 << 3,
  ITEMS = 1 << 4,
  STORES = 1 << 5,
  SIZED = 1 << 6,
  CONTAINS = 1 << 7,
  ITERABLE = 1 << 8,
  CALLABLE = 1 << 9,
  NUMERIC = 1 << 10,
  UNHASHABLE = 1 << 11,
  KEY = 1 << 12,
  PRINTED = 1 << 13,
  PASSED = 1 << 14,
  CONCRETE = 1 << 15,
  COPIED = 1 << 16,
};

inline bool has(Kind kind, Trait trait) {
  static constexpr uint32_t kTraits[] = {
#define KIND(name, properties, answers, modelled, type, rebuilt, text) (properties) | (answers) | (modelled),
#include "value/kinds.def"
#undef KIND
  };
  return kTraits[static_cast<size_t>(kind)] & trait;
}

/// Calls `visit` with the value cast to its kind. `visit` needs an overload for each kind with the trait; other kinds
/// must not be passed.
template <Trait trait, class Visit>
auto as_kind(Value* seen, Visit&& visit) {
  switch (seen->kind) {
#define KIND(name, properties, answers, modelled, type, rebuilt, text) \
  case Kind::name:                                                     \
    if constexpr (((properties) | (answers) | (modelled)) & trait)     \
      return visit(static_cast<value::name*>(seen));                   \
    else                                                               \
      break;
#include "value/kinds.def"
#undef KIND
  }
  GRAMME_BUG(std::string("a ") + kind_name(seen->kind) + " is asked what it does not answer");
}

}  // namespace gramme::value
