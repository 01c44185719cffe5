// Runs a call on fake tensors and describes what it did. Only meta's own sources include this.
#pragma once
#include <functional>

#include "meta/infer.h"

namespace gramme::meta {

class Environment;
class Fakes;

struct Filled {
  Outcome outcome;
  Owned<> value;  // of a call on live objects
  // False: what the program's Python said may be another thing the next time, and an error may not come again (memory,
  // recursion, a warning turned into an error).
  bool lasting = true;
};

/// Throws PythonError for what interrupts the program.
Filled fill(const Call& call, const std::vector<Level>& levels, shape::Assumptions* assumptions);
/// The same in an environment and on fakes that stay. `undecided` is what the call asked of a number that comes out of
/// data, if that made it fail.
Filled fill(const Call& call, Environment& environment, Fakes& fakes, shape::Assumptions& assumptions,
            std::string& undecided);
/// On objects from before, under the mode of their fakes, which is entered. What is written is not told.
Filled fill_live(const Call& call, const std::function<Owned<>(const Argument&)>& object);

}  // namespace gramme::meta
