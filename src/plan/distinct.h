// The guard that objects are distinct: an object that a segment writes to, or uses as a key, must be none of the other
// objects it knows. Otherwise the write would change an object that the capture considers unchanged. Attribute dicts
// count too.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "plan/bindings.h"
#include "plan/program.h"

namespace gramme::plan {

class Distinct {
 public:
  Distinct(const Checking& checking, const std::vector<Bindings>& parts) : checking_(checking), parts_(parts) {}
  /// True if the object of each Distinct fact differs from all others. Nearly free for the same objects as last time.
  bool holds(PyObject* const* registers) {
    if (checking_.program.distinct.empty()) return true;
    return (moves_ == checking_.moves && loose_are_same(registers)) || are_distinct(registers);
  }
  /// Two registers that hold the same object now.
  std::optional<std::pair<uint32_t, uint32_t>> same(PyObject* const* registers) const;

 private:
  /// An object at the last success, and its attribute dict. Addresses without references: comparing them suffices.
  struct Known {
    uint32_t index;
    PyObject *object, *dict;
    bool is_same(PyObject* const* registers) const;
  };
  bool loose_are_same(PyObject* const* registers);
  bool are_distinct(PyObject* const* registers);
  bool all_are_same(PyObject* const* registers) const;
  bool is_vouched_for(uint32_t index) const;

  const Checking& checking_;
  const std::vector<Bindings>& parts_;
  uint64_t moves_ = UINT64_MAX;  // checking_.moves at the last success
  std::vector<Known> known_;
  // Those that may differ although no part has written a register, since no words stand for them. Listed when they are
  // first needed.
  std::optional<std::vector<Known>> loose_;
};

}  // namespace gramme::plan
