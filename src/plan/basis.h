// What the guard plans of one description share: the description, its program, and what is kept for it.
//
// A Python object, so that the collector sees once what it holds, however many plans there are.
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
/// What only this plan has is taken out of it.
GuardDescription take_description(Owned<Basis> basis);

}  // namespace gramme::plan
