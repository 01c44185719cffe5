// Copies of the table columns, which tests can change at run time.
#include "plan/rows.h"

#include <algorithm>
#include <iterator>

#include "base/process.h"

namespace gramme::plan {
namespace {

constexpr GuardRow kGuardRows[] = {
#define GUARD(name, operand, role, needs, text) {Role::role, needs},
#include "guards/guards.def"
#undef GUARD
};

constexpr SourceRow kSourceRows[] = {
#define SOURCE(name, uses, place, needs, evidence, text) {needs, Evidence::evidence},
#include "source/sources.def"
#undef SOURCE
};

constexpr size_t kGuards = std::size(kGuardRows), kSources = std::size(kSourceRows);

/// The columns in use; only tests make them differ from the tables.
struct Rows {
  GuardRow guards[kGuards];     // GIL
  SourceRow sources[kSources];  // GIL
  constexpr Rows() : guards{}, sources{} { restore(); }
  constexpr void restore() {
    std::copy(std::begin(kGuardRows), std::end(kGuardRows), guards);
    std::copy(std::begin(kSourceRows), std::end(kSourceRows), sources);
  }
};
OfProcess<Rows> rows;

}  // namespace

const GuardRow& row(guards::Kind kind) { return rows->guards[static_cast<size_t>(kind)]; }
const SourceRow& row(source::Kind kind) { return rows->sources[static_cast<size_t>(kind)]; }

bool empty_column(const std::string& table, const std::string& name, const std::string& column) {
  for (size_t i = 0; table == "guards" && i < kGuards; ++i) {
    if (name != guards::kind_name(static_cast<guards::Kind>(i))) continue;
    if (column == "role") rows->guards[i].role = Role::Nobody;
    if (column == "needs") rows->guards[i].needs = kNone;
    return column == "role" || column == "needs";
  }
  for (size_t i = 0; table == "sources" && i < kSources; ++i) {
    if (name != source::kind_name(static_cast<source::Kind>(i))) continue;
    if (column == "needs") rows->sources[i].needs = kNone;
    if (column == "evidence")
      rows->sources[i].evidence = Evidence::Stamp;  // claims words of the base that do not exist
    return column == "needs" || column == "evidence";
  }
  return false;
}

void restore_columns() { rows->restore(); }

}  // namespace gramme::plan
