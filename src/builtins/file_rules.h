// Which functions are traced or run for real, by the files they come from: PyTorch's, gramme's, the standard library's,
// other packages'.
#pragma once
#include <Python.h>

#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/ref.h"

namespace gramme::builtins {

/// Directory of a loaded module's __file__ with a '/' at the end; empty if it has none.
std::string directory_of(const char* module);

/// The rules about files; the result for each file is cached.
class FileRules {
 public:
  /// Adds a row of rules.txt; kinds that are not about files are ignored.
  void add(const std::string& kind, const std::string& name);
  void find_roots();
  /// True if the file's functions run for real.
  bool runs(PyObject* file);
  bool is_of_torch(PyObject* file) const;
  /// True for a function of torch that models consist of, as opposed to one that only serves operators.
  bool is_of_models(PyCodeObject* code) const;
  /// True if the file belongs to a tool that inspects programs: importlib, PyTorch's compilers, gramme.
  bool is_tool(PyObject* file) const;

 private:
  bool find_runs(std::string_view file) const;
  bool torch_runs(std::string_view path) const;
  bool is_below_any(std::string_view file, std::span<const char* const> paths) const;

  std::vector<std::string> torch_outside_, torch_inline_, torch_run_;
  std::unordered_set<std::string> stdlib_run_, package_run_;
  std::string torch_, stdlib_, gramme_;
  Owned<> by_file_;
};

}  // namespace gramme::builtins
