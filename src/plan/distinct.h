// The guard that objects are distinct: what a segment writes to, or uses as a key, is no other object that it knows. A
// write to one would otherwise change another that the capture took for unchanged. Dicts that hold attributes count
// too.
#pragma once
#include <optional>
#include <utility>

#include "plan/program.h"

namespace gramme::plan {

class Distinct {
 public:
  explicit Distinct(const Program& program) : program_(program) {}
  /// True if each object of a Distinct fact is another one than all others. Nearly free for the objects for which it
  /// held last.
  bool holds(PyObject* const* registers) { return program_.distinct.empty() || are_distinct(registers); }
  /// The registers of two that are one object now.
  std::optional<std::pair<uint32_t, uint32_t>> same(PyObject* const* registers) const;

 private:
  bool are_distinct(PyObject* const* registers);

  const Program& program_;
  // Each object and the dict of its attributes. Not held: equal addresses are equal objects, whatever lives there now.
  std::vector<PyObject*> known_;
};

}  // namespace gramme::plan
