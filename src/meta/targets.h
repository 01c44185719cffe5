// What is known of targets by name; tables in targets.def.
#pragma once
#include <Python.h>

#include <string>

namespace gramme::meta {

/// Values of Python scalars cannot change the metadata of what the target (a callable or a method's name) returns.
bool ignores_scalar_values(PyObject* target);
/// Sets state of the thread or process: never run on fakes; it returns None.
bool sets_state(PyObject* target);

/// Names of aten operators: "index", and "index.Tensor" for one overload.
struct AtenName {
  std::string base, overload;  // overload "default" if it has none
};
/// May raise depending on data.
bool raises_on_data(const AtenName& name);
/// May raise if it divides integers.
bool raises_on_zero(const AtenName& name);
/// Writes running_mean and running_var without saying so in its schema.
bool writes_running_statistics(const AtenName& name);

}  // namespace gramme::meta
