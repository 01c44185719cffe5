// A hash-based comparison, skipped while all registers hold the same objects as at the last success.
#include "plan/distinct.h"

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

[[gnu::hot]] bool Distinct::are_distinct(PyObject* const* registers) {
  size_t at = 0;
  bool unchanged = !known_.empty();
  auto compare = [&](const std::vector<uint32_t>& indices) {
    for (size_t i = 0; unchanged && i < indices.size(); ++i, at += 2) {
      PyObject* object = registers[indices[i]];
      unchanged = known_[at] == object && known_[at + 1] == dict_of(object);
    }
  };
  compare(program_.distinct);
  compare(program_.others);
  if (unchanged) return true;
  if (same(registers)) return false;
  known_.clear();
  for (const auto* indices : {&program_.distinct, &program_.others})
    for (uint32_t index : *indices) known_.insert(known_.end(), {registers[index], dict_of(registers[index])});
  return true;
}

std::optional<std::pair<uint32_t, uint32_t>> Distinct::same(PyObject* const* registers) const {
  std::unordered_map<PyObject*, uint32_t> seen;
  for (uint32_t index : program_.distinct)
    for (PyObject* part : {registers[index], dict_of(registers[index])}) {
      if (!part) continue;
      auto [known, added] = seen.try_emplace(part, index);
      if (!added) return {{known->second, index}};
    }
  for (uint32_t index : program_.others)
    for (PyObject* part : {registers[index], dict_of(registers[index])})
      if (auto known = seen.find(part); known != seen.end()) return {{known->second, index}};
  return {};
}

}  // namespace gramme::plan
