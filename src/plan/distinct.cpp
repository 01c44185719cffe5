// A hash-based comparison, skipped while the objects and their attribute dicts are those of the last success.
#include "plan/distinct.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "cpython/objects.h"

namespace gramme::plan {
namespace {

/// The object's attribute dict, if it exists.
PyObject* dict_of(PyObject* object) {
  PyObject** dict = cpython::instance_dict_address(object);
  return dict ? *dict : nullptr;
}

}  // namespace

[[gnu::hot]] inline bool Distinct::Known::is_same(PyObject* const* registers) const {
  return registers[index] == object && dict_of(object) == dict;
}

/// Reads nothing of what the parts' words stand for. A model has a thousand dicts, each on a cache line of its own.
[[gnu::hot]] bool Distinct::loose_are_same(PyObject* const* registers) {
  if (!loose_) {
    loose_.emplace();
    std::copy_if(known_.begin(), known_.end(), std::back_inserter(*loose_),
                 [&](const Known& each) { return !is_vouched_for(each.index); });
  }
  return std::all_of(loose_->begin(), loose_->end(), [&](const Known& each) { return each.is_same(registers); });
}

/// A part has the register, and its words show that the object in it has the same attribute dict.
bool Distinct::is_vouched_for(uint32_t index) const {
  const auto part =
      std::find_if(parts_.begin(), parts_.end(), [&](const Bindings& each) { return each.covers(index); });
  return part != parts_.end() && part->has_same_dict(index);
}

bool Distinct::all_are_same(PyObject* const* registers) const {
  return !known_.empty() &&
         std::all_of(known_.begin(), known_.end(), [&](const Known& each) { return each.is_same(registers); });
}

bool Distinct::are_distinct(PyObject* const* registers) {
  loose_.reset();
  if (!all_are_same(registers)) {
    moves_ = UINT64_MAX;
    if (same(registers)) return false;
    known_.clear();
    for (const auto* indices : {&checking_.program.distinct, &checking_.program.others})
      for (uint32_t index : *indices) known_.push_back({index, registers[index], dict_of(registers[index])});
  }
  moves_ = checking_.moves;
  return true;
}

std::optional<std::pair<uint32_t, uint32_t>> Distinct::same(PyObject* const* registers) const {
  std::unordered_map<PyObject*, uint32_t> seen;
  for (uint32_t index : checking_.program.distinct)
    for (PyObject* part : {registers[index], dict_of(registers[index])}) {
      if (!part) continue;
      auto [known, added] = seen.try_emplace(part, index);
      if (!added) return {{known->second, index}};
    }
  for (uint32_t index : checking_.program.others)
    for (PyObject* part : {registers[index], dict_of(registers[index])})
      if (auto known = seen.find(part); known != seen.end()) return {{known->second, index}};
  return {};
}

}  // namespace gramme::plan
