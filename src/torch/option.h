// The current value of one option of a PyTorch configuration module. After the first read it runs no Python.
//
//   static Option specialize_int(of_torch::DynamoConfig, "specialize_int");
//   specialize_int.is_set(false);  // what it is while the module is not imported
#pragma once
#include "torch/names.h"

namespace gramme {

/// Objects live as long as the process.
class Option {
 public:
  constexpr Option(of_torch::Module module, const char* name) : module_(module), name_(name) {}
  Option(const Option&) = delete;

  /// The value; null while nobody has imported the module.
  Owned<> value();
  /// The value that the program assigned; null if it assigned none or one equal to the default, and for options without
  /// a variable.
  Owned<> changed();
  /// True if the imported module has this option in this version of torch.
  bool exists();
  bool is_set(bool otherwise) {
    Owned<> now = value();
    return now ? now.get() == Py_True || PyObject_IsTrue(now.get()) == 1 : otherwise;
  }

 private:
  Owned<> look();
  void find(PyObject* config);

  of_torch::Module module_;
  const char* name_;
  bool looked_ = false, missing_ = false;
  PyObject* variable_ = nullptr;  // the ContextVar that holds the program's value, if nothing else decides
  PyObject *unset_ = nullptr, *default_ = nullptr;  // its content while nothing is assigned, and the value then
  PyObject* declared_ = nullptr;                    // the default as the module declares it
};

}  // namespace gramme
