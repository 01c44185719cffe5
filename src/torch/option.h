// One option of a configuration module of PyTorch, as it is now, without running Python once it was read.
//
//   static Option specialize_int(of_torch::DynamoConfig, "specialize_int");
//   specialize_int.is_set(false);  // what it is while the module is not imported
#pragma once
#include "torch/names.h"

namespace gramme {

/// Lives as long as the process.
class Option {
 public:
  constexpr Option(of_torch::Module module, const char* name) : module_(module), name_(name) {}
  Option(const Option&) = delete;

  /// Null while nobody has imported the module.
  Owned<> value();
  /// What the program assigned; null if it assigned nothing or what it was, and for what is not assigned to a variable.
  Owned<> changed();
  /// True if the module, which is imported, has such an option in this version of torch.
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
  PyObject* variable_ = nullptr;  // the ContextVar with what the program assigned, where nothing else decides
  PyObject *unset_ = nullptr, *default_ = nullptr;  // what it has while nothing was assigned, and what that means
  PyObject* declared_ = nullptr;                    // the default as the module declares it
};

}  // namespace gramme
