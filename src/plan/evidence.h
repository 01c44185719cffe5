// What shows that a dict is as it was: the seam between the plan and the versions of CPython.
//
//   Tags   the dict's version: one word, and what it stands for is alive. Not after 3.12: 3.13 lets attributes change
//          without it, 3.14 has none
//   Slots  the table, and each key and value that is looked at, one by one. Every version
#pragma once
#include <cstdint>
#include <string>

namespace gramme::plan {

enum class DictEvidence : uint8_t { Tags, Slots };

/// What bound forms made from now on rest on: GRAMME_EVIDENCE at import ("tags", "slots"), else tags where the version
/// of CPython has them.
extern DictEvidence dict_evidence;
/// False if this version has none of that name.
bool use_evidence(const std::string& name);

}  // namespace gramme::plan
