// Decodes instructions by a table that is built at compile time from the running version's opcodes/3xx.def.
#include "cpython/encoding.h"

// last, since it defines names of the vocabulary as macros
#include <opcode.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "cpython/features.h"
#include "cpython/stack.h"

namespace gramme::cpython {
namespace {

using opcode::Op;

/// If the instruction's argument & mask equals `value`, it means these parts in order.
struct PartRule {
  Op op;
  uint8_t shift;
  int32_t keep, plus;
};
struct Case {
  uint8_t raw;
  int32_t mask, value;
  uint8_t count;
  PartRule parts[2];
};
enum class Prefix : uint8_t { None, Names, Nothing, Truth };
struct Jump {
  int8_t sign;  // 0: no jump
  uint8_t beyond;
};

consteval Op op_named(std::string_view name) {
  for (int i = 0; i < opcode::kCount; ++i)
    if (name == opcode::kRows[i].name) return static_cast<Op>(i);
  throw "no row of opcodes.def";
}

constexpr int kMostCases = 256;
struct Table {
  Encoding encoding{};
  std::array<const char*, 256> names{};
  std::array<Case, kMostCases> cases{};  // cases of one opcode are adjacent
  std::array<uint8_t, 256> first{};      // index of an opcode's first case
  std::array<Prefix, 256> prefixes{};
  std::array<Jump, 256> jumps{};
  int case_count = 1;  // the first is for unknown opcodes

  constexpr void add(const char* name, uint8_t opcode, uint8_t cache_units, std::initializer_list<uint8_t> forms) {
    names[opcode] = name;
    encoding.caches[opcode] = cache_units;
    encoding.unspecialised[opcode] = opcode;
    for (uint8_t form : forms) encoding.unspecialised[form] = opcode;
  }
  constexpr void means(uint8_t raw, int32_t mask, int32_t value, std::initializer_list<PartRule> parts) {
    Case& added = cases[case_count];
    added = {raw, mask, value, static_cast<uint8_t>(parts.size()), {}};
    std::copy(parts.begin(), parts.end(), added.parts);
    if (!first[raw]) first[raw] = static_cast<uint8_t>(case_count);
    ++case_count;
  }
};

consteval Table make_table() {
  Table table;
  for (int opcode = 0; opcode < 256; ++opcode) table.encoding.unspecialised[opcode] = static_cast<uint8_t>(opcode);
  table.cases[0] = {0, 0, 0, 1, {{op_named("UNREACHED"), 0, 0, 0}}};
#define RAW(name, cache_units, ...) table.add(#name, name, cache_units, {__VA_ARGS__});
#define SAME(name) table.means(name, 0, 0, {{op_named(#name), 0, -1, 0}});
#define MEANS(name, mask, value, ...) table.means(name, mask, value, {__VA_ARGS__});
#define PART(op, shift, keep, plus) PartRule{op_named(#op), shift, keep, plus}
#define JUMPS(name, sign, beyond) table.jumps[name] = {sign, beyond};
#define PREFIX(name, kind) table.prefixes[name] = Prefix::kind;
#include "cpython/opcodes/rows.inc"
#undef PART
  return table;
}
constexpr Table kTable = make_table();
constexpr uint8_t kExtended = EXTENDED_ARG;

struct RawInstruction {
  uint8_t opcode;
  int32_t arg, at, next;
};

/// Reads an instruction, with its EXTENDED_ARGs folded into the argument.
RawInstruction read(Units units, int unit) {
  uint32_t arg = 0;
  for (;; ++unit) {
    const RawUnit raw = units[unit];
    arg = arg << 8 | raw.arg;
    if (raw.opcode == kExtended && unit + 1 < units.count) continue;
    return {raw.opcode, static_cast<int32_t>(arg), unit, unit + 1 + kTable.encoding.caches[raw.opcode]};
  }
}

const Case& case_of(const RawInstruction& raw) {
  const Case* found = &kTable.cases[kTable.first[raw.opcode]];
  while ((raw.arg & found->mask) != found->value) ++found;
  return *found;
}

bool asks_truth(Units units, int unit) {
  return unit < units.count && (opcode::properties(case_of(read(units, unit)).parts[0].op) & opcode::kTruth);
}

/// Reads past prefixes to the instruction that they belong to.
RawInstruction read_whole(Units units, Decoded& decoded) {
  RawInstruction raw = read(units, decoded.offset);
  while (raw.next < units.count) {
    const Prefix prefix = kTable.prefixes[raw.opcode];
    if (prefix == Prefix::None || prefix == Prefix::Truth) break;
    if (prefix == Prefix::Names) decoded.names = raw.arg;
    raw = read(units, raw.next);
  }
  decoded.at = raw.at;
  if (kTable.prefixes[raw.opcode] == Prefix::Truth && asks_truth(units, raw.next)) {
    decoded.inner = raw.next;
    raw = read(units, raw.next);
  }
  return raw;
}

}  // namespace

constexpr Encoding kEncoding = kTable.encoding;

const char* opcode_name(uint8_t opcode) { return kTable.names[opcode]; }

Decoded decode_at(Units units, int unit) {
  Decoded decoded{.offset = unit};
  const RawInstruction raw = read_whole(units, decoded);
  decoded.next = raw.next;
  decoded.raw = raw.opcode;
  if (const Jump jump = kTable.jumps[raw.opcode]; jump.sign)
    decoded.target = raw.next + jump.sign * raw.arg + jump.beyond;
  const Case& found = case_of(raw);
  decoded.count = found.count;
  for (int i = 0; i < found.count; ++i) {
    const PartRule& part = found.parts[i];
    decoded.parts[i] = {part.op, (raw.arg >> part.shift & part.keep) + part.plus};
  }
  const bool asks = opcode::properties(decoded.parts[0].op) & opcode::kTruth;
  decoded.wants_bool = kStack.strict_bool && asks && decoded.inner < 0;
  // a comparison's own bool() belongs to the following instruction that tests the truth
  constexpr Op kToBool = op_named("TO_BOOL");
  if (decoded.count == 2 && decoded.parts[1].op == kToBool && asks_truth(units, raw.next)) decoded.count = 1;
  return decoded;
}

PyObject* special_name(int index) {
  static constexpr const char* kNames[] = {
#define SPECIAL(name) name,
#include "cpython/opcodes/rows.inc"
      nullptr};
  static const auto interned = [] {  // no Python: text
    std::array<PyObject*, std::size(kNames)> made{};
    for (size_t i = 0; kNames[i]; ++i) made[i] = PyUnicode_InternFromString(kNames[i]);
    return made;
  }();
  return interned[index];
}

}  // namespace gramme::cpython
