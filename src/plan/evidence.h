// How a bound form shows that a dict has not changed; depends on the version of CPython.
//
//   Tags     the dict's version: one word, and what it stands for is alive. Not after 3.12: 3.13 lets attributes change
//            without it, 3.14 has none
//   Watched  CPython tells of changes: no word as long as it told of none (cpython/watched_dicts.h). From 3.13 on
//   Slots    the table, and each key and value that is looked at, one by one. Every version, and each dict that changes
//            at every call
#pragma once
#include <cstdint>
#include <string>

namespace gramme::plan {

enum class DictEvidence : uint8_t { Tags, Watched, Slots };

/// What bound forms made from now on rest on. At first that is GRAMME_EVIDENCE ("tags", "watched", "slots"), else the
/// first that this version of CPython has; slots, too, if other extensions have taken all watchers of dicts. False if
/// this process has none of that name.
bool use_evidence(const std::string& name);
const char* evidence_name();

}  // namespace gramme::plan
