// Objects that a segment writes to or has as keys must be other ones than all it knows, or its picture would not fit.
// So must the dicts that hold attributes.
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
