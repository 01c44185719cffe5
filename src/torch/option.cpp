// Reads an option's context variable directly where torch's configuration module would; any other option through the
// module's __getattr__.
#include "torch/option.h"

#include "base/context.h"
#include "base/imported.h"
#include "torch/names.h"

namespace gramme {

/// Finds the option's variable, unless its value has other sources than assignment (an alias, the environment).
void Option::find(PyObject* config) {
  Owned<> entries = take(PyObject_GetAttrString(config, of_torch::text(of_torch::ConfigEntries)));
  Owned<> name = take(PyUnicode_FromString(name_));
  Owned<> entry = take(PyObject_GetItem(entries.get(), name.get()));
  PyObject* const unset = of_torch::object(of_torch::UnsetOption);
  Owned<> variable = take(PyObject_GetAttrString(entry.get(), "user_override"));
  Owned<> alias = take(PyObject_GetAttrString(entry.get(), "alias"));
  Owned<> forced = take(PyObject_GetAttrString(entry.get(), "env_value_force"));
  if (alias.get() != Py_None || forced.get() != unset || !PyContextVar_CheckExact(variable.get())) return;
  unset_ = unset;
  declared_ = take(PyObject_GetAttrString(entry.get(), "default")).release();
  variable_ = variable.release();
}

bool Option::exists() {
  if (looked_) return true;
  PyObject* const config = of_torch::if_loaded(module_);
  return config && check(PyMapping_HasKeyString(
                       take(PyObject_GetAttrString(config, of_torch::text(of_torch::ConfigEntries))).get(), name_));
}

/// Looks the option up at the first call after its module was imported, and then returns the module; null otherwise.
Owned<> Option::look() {
  if (looked_) return {};
  Owned<> config = share(of_torch::if_loaded(module_));
  if (!config) return {};
  find(config.get());
  looked_ = true;
  return config;
}

Owned<> Option::changed() {
  if (!looked_ && !missing_ && of_torch::if_loaded(module_)) exists() ? void(look()) : void(missing_ = true);
  if (!variable_) return {};
  PyObject* assigned;
  check(PyContextVar_Get(variable_, nullptr, &assigned));
  Owned<> now = Owned<>::steal(assigned);
  if (now.get() == unset_ || now.get() == declared_) return {};
  const bool alike = Py_IS_TYPE(now.get(), Py_TYPE(declared_));
  return alike && check(PyObject_RichCompareBool(now.get(), declared_, Py_EQ)) ? Owned<>() : now;
}

Owned<> Option::value() {
  Owned<> config = look();
  if (!looked_) return {};
  if (variable_) {
    PyObject* assigned;
    check(PyContextVar_Get(variable_, nullptr, &assigned));
    Owned<> now = Owned<>::steal(assigned);
    if (now.get() != unset_) return now;
    if (default_) return share(default_);
  }
  if (!config) config = take(import_module(of_torch::text(module_)));
  CopiedContext context;  // the first read of a mutable default stores a copy in the variable
  Owned<> now = take(PyObject_GetAttrString(config.get(), name_));
  const bool constant = PyBool_Check(now.get()) || PyLong_CheckExact(now.get()) || PyUnicode_CheckExact(now.get());
  if (variable_ && constant) default_ = share(now.get()).release();
  return now;
}

}  // namespace gramme
