// Runs a call on fake tensors, and describes its results and writes. Only meta's own sources include this.
#pragma once
#include <functional>

#include "meta/infer.h"

namespace gramme::meta {

class Environment;
class Fakes;

struct Filled {
  Outcome outcome;
  Owned<> value;  // result of a call on live objects
  // False if another such call may differ: the program's Python was asked, or an error may not recur (memory,
  // recursion, a warning turned into an error).
  bool lasting = true;
  bool repeats = false;  // … but other such calls of the same capture do not: a wrapper's class answered
};

/// Throws PythonError for interrupts.
Filled fill(const Call& call, const std::vector<Level>& levels, shape::Assumptions* assumptions);
/// The same in an environment and on fakes that outlive the call. `undecided` is the question about a data-dependent
/// number that made the call fail, if any.
Filled fill(const Call& call, Environment& environment, Fakes& fakes, shape::Assumptions& assumptions,
            std::string& undecided);
/// The same on existing objects, under the mode of their fakes, which is entered. Writes are not described.
Filled fill_live(const Call& call, const std::function<Owned<>(const Argument&)>& object);

}  // namespace gramme::meta
