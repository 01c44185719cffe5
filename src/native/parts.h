// What composite operators are made of, and data that reaches tensors past operators.
#pragma once
#include <unordered_set>
#include <vector>

#include "native/recorder.h"

namespace gramme::native {

/// Tensors that operators made without data.
struct Uninitialized {
  std::unordered_set<Register> tensors;  // that no operator wrote to
  bool read = false;                     // an operator did read one: data came in another way
};

Uninitialized find_uninitialized(const std::vector<Observed>& observed, const Recorder& recorder);
/// True if the results of a composite are those of the operators it called, and all they read.
bool is_only_its_parts(const Observed& record, const Recorder& recorder);
/// Which are symbols to it, and plain numbers to what it calls.
bool takes_numbers(const Observed& record);

}  // namespace gramme::native
