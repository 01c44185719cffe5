#include "meta/infer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <unordered_map>

#include "meta/fill.h"
#include "meta/key.h"

namespace gramme::meta {
namespace {

struct Entry {
  std::vector<uint64_t> words;
  std::vector<Owned<>> held;  // keeps the addresses in the words unique
  Outcome outcome;
  std::unique_ptr<Entry> next;  // another key with the same hash, or the same under other guards
};

/// All of it is guarded by the GIL, which is held from the look-up to the return.
struct Memo {
  std::unordered_map<uint64_t, Entry> entries;  // addresses of nodes are stable
  std::array<Outcome, 64> passing;              // outcomes that are not kept
  size_t next_passing = 0;
  InferStatistics statistics{};
};

Memo& memo() {
  static auto* memo = new Memo;  // no Python: empty. Never destroyed: it holds Python objects
  return *memo;
}

/// Of several outcomes of one call, each under its guards, the first that is right now.
bool holds(const Outcome& outcome, shape::Assumptions* assumptions) {
  return std::all_of(outcome.guards.begin(), outcome.guards.end(),
                     [&](shape::Expr guard) { return assumptions->hint(guard) == 1; });
}

const Outcome* look_up(const Key& key, uint64_t hash, shape::Assumptions* assumptions) {
  auto found = memo().entries.find(hash);
  if (found == memo().entries.end()) return nullptr;
  for (const Entry* entry = &found->second; entry; entry = entry->next.get())
    if (entry->words == key.words() && holds(entry->outcome, assumptions)) return &entry->outcome;
  return nullptr;
}

const Outcome& store(const Key& key, uint64_t hash, Outcome&& outcome) {
  Entry* entry = &memo().entries[hash];
  while (!entry->words.empty()) {
    if (!entry->next) entry->next = std::make_unique<Entry>();
    entry = entry->next.get();
  }
  entry->words = key.words();
  for (PyObject* object : key.objects()) entry->held.push_back(share(object));
  entry->outcome = std::move(outcome);
  return entry->outcome;
}

const Outcome& miss(const Call& call, const std::vector<VmapLevel>& levels, shape::Assumptions* assumptions,
                    const Key& key, uint64_t hash) {
  auto start = std::chrono::steady_clock::now();
  Filled filled = fill(call, levels, assumptions);
  std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  ++memo().statistics.misses;
  memo().statistics.miss_seconds += taken.count();
  if (key.memoizable() && filled.lasting) {
    const Outcome* meanwhile = look_up(key, hash, assumptions);  // a nested fill or another thread may have been faster
    return meanwhile ? *meanwhile : store(key, hash, std::move(filled.outcome));
  }
  Outcome& slot = memo().passing[memo().next_passing++ % memo().passing.size()];
  return slot = std::move(filled.outcome);
}

}  // namespace

const Outcome& infer(const Call& call, const std::vector<VmapLevel>& levels, shape::Assumptions* assumptions) {
  static auto* scratch = new Key;  // no Python: empty
  scratch->build(call, levels);
  uint64_t hash = scratch->hash();
  if (const Outcome* known = look_up(*scratch, hash, assumptions)) {
    ++memo().statistics.hits;
    return *known;
  }
  Key key = *scratch;  // the fill may come back here
  return miss(call, levels, assumptions, key, hash);
}

InferStatistics infer_statistics() { return memo().statistics; }

}  // namespace gramme::meta
