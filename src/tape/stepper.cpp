// Evaluates steps one by one, dropping values after their last use.
#include "tape/stepper.h"

#include "base/signals.h"

namespace gramme::native {

Stepper::Stepper(const Program& program, PyObject* const* inputs) : program_(program) {
  values_.resize(static_cast<size_t>(program.inputs) + program.steps.size());
  for (size_t i = 0; i < static_cast<size_t>(program.inputs); ++i) values_[i] = share(inputs[i]);
}

PyObject* Stepper::run(size_t step) {
  return run(step, [](ValueId) { return Owned<>(); });
}

void Stepper::drop_after(size_t step) {
  for (ValueId value : program_.steps[step].dying) values_[static_cast<size_t>(value)] = {};
}

Owned<> Stepper::output() {
  return build(program_.output, [this](ValueId id) { return values_[static_cast<size_t>(id)]; });
}

Owned<> run_stepwise(const Program& program, PyObject* const* inputs, size_t* failed) {
  Stepper stepper(program, inputs);
  for (size_t step = 0; step < program.steps.size(); ++step) {
    *failed = step;
    look_for_signals();
    stepper.run(step);
    stepper.drop_after(step);
  }
  return stepper.output();
}

}  // namespace gramme::native
