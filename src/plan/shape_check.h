// The part of a check that is about varying numbers: sizes, strides, offsets and ints.
#pragma once
#include <string>
#include <vector>

#include "base/mismatch.h"
#include "guards/shapes.h"
#include "plan/program.h"
#include "shape/program.h"

namespace gramme::plan {

class ShapeCheck {
 public:
  ShapeCheck(const guards::ShapeGuards& shapes, const Program& program);
  /// True if all conditions on numbers hold. Call only after all facts hold, since tensors then match their signatures.
  /// Costs 1.5 ns per number loaded and 1 ns per instruction (more for divisions); only the loads if the numbers are
  /// those of the last success.
  bool holds(PyObject* const* registers);
  /// Fills in new references to the description's `numbers` at the last success. False, and no references, if there is
  /// no memory.
  bool give(PyObject** numbers) const;
  /// The first condition that fails; with an empty text if all hold.
  Mismatch explain(const guards::ShapeGuards& shapes, PyObject* const* registers) const;

 private:
  struct Leaf {
    Number number;
    shape::Register target;
  };
  struct Result {
    shape::Register from;
    shape::Type type;
  };

  const Program& program_;
  std::vector<shape::Instruction> code_;
  std::vector<Leaf> leaves_;  // numbers that the code reads
  std::vector<Result> results_;
  std::vector<int64_t> held_, tried_;  // registers of the last success, and of the present check
  bool has_held_ = false;
};

}  // namespace gramme::plan
