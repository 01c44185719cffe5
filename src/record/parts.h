// Analysis of observed calls: whether a composite is only its parts, and tensors whose data came past operators.
#pragma once
#include <unordered_set>
#include <vector>

#include "record/recorder.h"

namespace gramme::native {

/// Tensors made uninitialised (empty and the like).
struct Uninitialized {
  std::unordered_set<Register> tensors;  // never written by an operator
  bool read = false;                     // some operator reads one, so its data came past operators
};

Uninitialized find_uninitialized(const std::vector<Observed>& observed, const Recorder& recorder);
/// True if a composite's results are results of the operators it called, and no data came past operators.
bool is_only_its_parts(const Observed& record, const Recorder& recorder);
/// True if a composite's arguments include numbers: symbols to it, plain numbers to what it calls.
bool takes_numbers(const Observed& record);

}  // namespace gramme::native
