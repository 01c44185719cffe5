// What is known of targets by name; tables in targets.def.
#pragma once
#include <Python.h>

#include <cstdint>
#include <string>

namespace gramme::meta {

/// Sets state of the thread or process: never run on fakes; it returns None.
bool sets_state(PyObject* target);

/// Names of aten operators: "index", and "index.Tensor" for one overload.
struct AtenName {
  std::string base, overload;  // overload "default" if it has none
};
/// Whatever its data, the operator does not raise, but for what raises_on_integers says.
bool cannot_raise(const AtenName& name);
/// May raise if its arguments are integers and the second is not positive.
bool raises_on_integers(const AtenName& name);
/// Which Python numbers the operator takes behind its first argument: see targets.def.
enum class Numbers : uint8_t { Any, Probability, Interval, Deviation };
Numbers checked_numbers(const AtenName& name);
/// When the operator's kernel warns, which those of fakes do not: see targets.def.
enum class Warns : uint8_t { Never, Always, WithoutFreedom, FromComplex, ToReal };
Warns kernel_warns(const AtenName& name);
/// Writes running_mean and running_var without saying so in its schema.
bool writes_running_statistics(const AtenName& name);

}  // namespace gramme::meta
