// Facts about targets by name, from the tables in torch_targets.def.
#pragma once
#include <Python.h>

#include <cstdint>
#include <string>

namespace gramme::meta {

/// True for functions that set state of the thread or process and return None; they never run on fakes.
bool sets_state(PyObject* target);

/// Names of aten operators: "index", and "index.Tensor" for one overload.
struct AtenName {
  std::string base, overload;  // "default" if there is none
};
/// True if the operator cannot raise for any data, except as in raises_on_integers().
bool cannot_raise(const AtenName& name);
/// True if the operator may raise for integers with a non-positive second argument.
bool raises_on_integers(const AtenName& name);
/// Which Python numbers the operator accepts after its first argument: see torch_targets.def.
enum class Numbers : uint8_t { Any, Probability, Interval, Deviation };
Numbers checked_numbers(const AtenName& name);
/// When the operator's real kernel warns although fakes do not: see torch_targets.def.
enum class Warns : uint8_t { Never, Always, WithoutFreedom, FromComplex, ToReal };
Warns kernel_warns(const AtenName& name);
/// True if the operator writes running_mean and running_var without declaring it in its schema.
bool writes_running_statistics(const AtenName& name);

}  // namespace gramme::meta
