// The part of a check that is about numbers: sizes, strides, offsets and ints that vary.
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
  /// True if everything has the value that it must have, or any. To be asked when all facts hold: tensors match their
  /// signatures then. 1.5 ns a number that is loaded; 1 ns an instruction, more if it divides, unless the numbers are
  /// those of the last call that held.
  bool holds(PyObject* const* registers);
  /// New references to what the description's `numbers` were at the last call that held. False and none if there is no
  /// memory.
  bool give(PyObject** numbers) const;
  /// The first that does not hold; without a text if all do.
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
  std::vector<Leaf> leaves_;  // what the code looks at
  std::vector<Result> results_;
  std::vector<int64_t> held_, tried_;  // registers: of the last call that held, and of the one under way
  bool has_held_ = false;
};

}  // namespace gramme::plan
