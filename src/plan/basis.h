// What all guard plans of one description share: the description, its lowered program, and what is kept for it.
//
// It is a Python object, so that the collector visits its references once, however many plans share it.
#pragma once
#include "plan/program.h"

namespace gramme::plan {

struct Basis {
  PyObject_HEAD;
  GuardDescription description;
  Program program;
  Owned<> kept;  // see GuardPlan::keep
};

Owned<Basis> make_basis(GuardDescription description);
/// Moves the description out if this is the only reference; copies it otherwise.
GuardDescription take_description(Owned<Basis> basis);

}  // namespace gramme::plan
