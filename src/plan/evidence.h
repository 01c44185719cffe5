// How a bound form shows that a dict has not changed; depends on the version of CPython.
//
//   Tags the dict's version: one word that vouches for the content. Not after 3.12: in 3.13 attributes change
//          without it, 3.14 has none
//   Slots a word for the table, and one for each key and value that is read. Every version
#pragma once
#include <cstdint>
#include <string>

namespace gramme::plan {

enum class DictEvidence : uint8_t { Tags, Slots };

/// The evidence for bound forms made from now on: GRAMME_EVIDENCE at import ("tags", "slots"), else tags if CPython has
/// them.
extern DictEvidence dict_evidence;
/// False if this version of CPython lacks the named evidence.
bool use_evidence(const std::string& name);

}  // namespace gramme::plan
