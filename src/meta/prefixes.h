// Histories (history.h) run in this process, as a trie of steps. Only meta's own sources include this.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/process.h"
#include "meta/infer.h"
#include "meta/key.h"

namespace gramme::meta {

/// Numbers sequences of steps; 0 is a sequence that cannot be identified later.
class Prefixes {
 public:
  struct Known {
    uint32_t id;
    std::vector<Owned<>> held;  // keeps the addresses in the words unique
    std::unique_ptr<Outcome> outcome;
  };
  Known& extended(uint32_t prefix, const Key& key, std::vector<uint64_t> words) {
    words.push_back(prefix);
    words.insert(words.end(), key.words().begin(), key.words().end());
    auto [found, added] = known_.try_emplace(std::move(words));
    if (added) {
      found->second.id = ++last_;
      for (PyObject* object : key.objects()) found->second.held.push_back(share(object));
      by_id_[last_] = &found->second;
    }
    return found->second;
  }
  Known* find(uint32_t id) {
    auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second;
  }
  size_t size() const { return known_.size(); }
  void trim() {
    if (known_.size() <= kKept) return;
    by_id_.clear();
    known_.clear();
  }

 private:
  struct Words {
    size_t operator()(const std::vector<uint64_t>& words) const {
      uint64_t hash = words.size();
      for (uint64_t word : words) {
        unsigned __int128 product = static_cast<unsigned __int128>(hash ^ word) * 0x9e3779b97f4a7c15ull;
        hash = static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(product);
      }
      return hash;
    }
  };
  static constexpr size_t kKept = 1 << 17;

  std::unordered_map<std::vector<uint64_t>, Known, Words> known_;  // GIL
  std::unordered_map<uint32_t, Known*> by_id_;                     // GIL: those of `known_`
  uint32_t last_ = 1;                                              // GIL, a word: number of the empty sequence
};
inline OfProcess<Prefixes> prefixes;

}  // namespace gramme::meta
