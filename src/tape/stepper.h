// Runs a program step by step in Python: for the recording, and for calls without a suitable tape.
#pragma once
#include <vector>

#include "tape/program.h"

namespace gramme::native {

/// Calls the step's target. `value` returns a new reference to a value's object. Throws PythonError.
template <class Value>
Owned<> call_step(const Step& step, Value&& value) {
  std::vector<Owned<>> held;
  for (const Operand& argument : step.arguments) held.push_back(build(argument, value));
  Owned<> names;
  if (!step.keywords.empty()) {
    names = take(PyTuple_New(static_cast<Py_ssize_t>(step.keywords.size())));
    for (size_t i = 0; i < step.keywords.size(); ++i) {
      PyTuple_SET_ITEM(names.get(), i, share(step.keywords[i].first.get()).release());
      held.push_back(build(step.keywords[i].second, value));
    }
  }
  std::vector<PyObject*> arguments;
  for (const Owned<>& object : held) arguments.push_back(object.get());
  PyObject* target = step.target.get();
  const size_t count = step.arguments.size();
  return take(step.kind == Step::Method ? PyObject_VectorcallMethod(target, arguments.data(), count, names.get())
                                        : PyObject_Vectorcall(target, arguments.data(), count, names.get()));
}

class Stepper {
 public:
  Stepper(const Program& program, PyObject* const* inputs);
  /// Runs a step and keeps its result until its last use. Throws PythonError.
  PyObject* run(size_t step);
  /// The same with values replaced by `given`, which returns a new reference, or null to keep the value.
  template <class Given>
  PyObject* run(size_t step, Given&& given) {
    Owned<>& result = values_[static_cast<size_t>(program_.result(step))];
    result = call_step(program_.steps[step], [&](ValueId id) {
      Owned<> object = given(id);
      return object ? object : values_[static_cast<size_t>(id)];
    });
    return result.get();
  }
  /// Sets a value that something else has made.
  void set(ValueId value, Owned<> object) { values_[static_cast<size_t>(value)] = std::move(object); }
  /// Drops values not needed after the step.
  void drop_after(size_t step);
  Owned<> output();
  PyObject* value(ValueId value) const { return values_[static_cast<size_t>(value)].get(); }

 private:
  const Program& program_;
  std::vector<Owned<>> values_;
};

/// Runs all steps. On an exception `*failed` is the step that raised. Throws PythonError.
Owned<> run_stepwise(const Program& program, PyObject* const* inputs, size_t* failed);

}  // namespace gramme::native
