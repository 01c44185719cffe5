// The guard that objects are distinct: an object that a segment writes to, or uses as a key, must be none of the other
// objects it knows. Otherwise the write would change an object that the capture considers unchanged. Attribute dicts
// count too.
#pragma once
#include <optional>
#include <utility>

#include "plan/program.h"

namespace gramme::plan {

class Distinct {
 public:
  explicit Distinct(const Program& program) : program_(program) {}
  /// True if the object of each Distinct fact differs from all others. Nearly free for the same objects as last time.
  bool holds(PyObject* const* registers) { return program_.distinct.empty() || are_distinct(registers); }
  /// Two registers that hold the same object now.
  std::optional<std::pair<uint32_t, uint32_t>> same(PyObject* const* registers) const;

 private:
  bool are_distinct(PyObject* const* registers);

  const Program& program_;
  // Addresses of each object and its attribute dict at the last success; no references. Comparing addresses suffices.
  std::vector<PyObject*> known_;
};

}  // namespace gramme::plan
