// Which operations end a segment: a table of named rows over facts about the operation (refusals.def).
//
//   Facts facts = fact::Breaks | fact::Error;
//   if (const Refusal* row = refusals::first<Stage::Outcome>(facts)) cannot(row->reason, …);
#pragma once
#include <array>
#include <cstdint>

#include "base/error.h"

namespace gramme::trace {

enum class Stage : uint8_t { Operation, Call, Outcome, Order };
enum class Told : uint8_t { Nothing, Message, ClassAndMessage, State, Seed };

/// Facts about an operation: a bit each.
namespace fact {
enum class Place : uint8_t {
#define FACT(name, text) name,
#include "trace/refusals.def"
};
#define FACT(name, text) constexpr uint32_t name = uint32_t(1) << static_cast<int>(Place::name);
#include "trace/refusals.def"
}  // namespace fact

class Facts {
 public:
  constexpr Facts(uint32_t facts = 0) : facts_(facts) {}
  constexpr void add(uint32_t fact, bool holds) { facts_ |= holds ? fact : 0; }
  constexpr bool has_all(uint32_t facts) const { return (facts_ & facts) == facts; }
  constexpr bool has_any(uint32_t facts) const { return (facts_ & facts) != 0; }

 private:
  uint32_t facts_;
};

struct Refusal {
  Stage stage;
  const char* name;
  uint32_t all, none;
  Reason reason;
  const char* text;
  Told told;
};

namespace refusals {
enum class Row : uint8_t {
#define REFUSAL(stage, name, ...) name,
#include "trace/refusals.def"
};

using namespace fact;
inline constexpr std::array kTable{
#define REFUSAL(stage, name, all, none, reason, text, told) \
  Refusal{Stage::stage, #name, all, none, Reason::reason, text, Told::told},
#include "trace/refusals.def"
};

constexpr const Refusal& row(Row row) { return kTable[static_cast<size_t>(row)]; }

/// The first row of the stage that holds; null if none does.
template <Stage kStage>
constexpr const Refusal* first(Facts facts) {
#define REFUSAL(stage, name, all, none, ...) \
  if (Stage::stage == kStage && facts.has_all(all) && !facts.has_any(none)) return &row(Row::name);
#include "trace/refusals.def"
  return nullptr;
}
}  // namespace refusals

}  // namespace gramme::trace
