// Matches file names against the folders of torch, the standard library and gramme, and against package names; results
// are cached by file.
#include "builtins/file_rules.h"

#include <algorithm>

#include "base/imported.h"
#include "base/text.h"
#include "torch/names.h"

namespace gramme::builtins {
namespace {

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

bool is_below(std::string_view file, const std::string& root, std::string_view path) {
  return !root.empty() && starts_with(file, root) && starts_with(file.substr(root.size()), path);
}

/// The first component of a path, without ".py".
std::string_view first_component(std::string_view path) {
  path = path.substr(0, path.find('/'));
  return path.ends_with(".py") ? path.substr(0, path.size() - 3) : path;
}

/// A loaded module's __file__; empty if it has none.
std::string file_of(const char* module) {
  PyObject* object = known_module(module);
  Owned<> file = Owned<>::steal(object ? PyObject_GetAttrString(object, "__file__") : nullptr);
  if (file && PyUnicode_Check(file.get())) return utf8_of(file.get());
  PyErr_Clear();
  return {};
}

/// True if the file belongs to this loaded package, in whatever folder of sys.path.
bool is_of_package(std::string_view file, const std::string& name) {
  const std::string path = file_of(name.c_str());
  const std::string_view folder = std::string_view(path).substr(0, path.rfind('/') + 1);
  return path.ends_with("/__init__.py") ? starts_with(file, folder) : !path.empty() && file == path;
}

}  // namespace

std::string directory_of(const char* module) {
  const std::string path = file_of(module);
  return path.substr(0, path.rfind('/') + 1);
}

void FileRules::add(const std::string& kind, const std::string& name) {
  if (kind == "torch-outside") torch_outside_.push_back(name);
  if (kind == "torch-inline") torch_inline_.push_back(name);
  if (kind == "torch-run") torch_run_.push_back(name);
  if (kind == "stdlib-run") stdlib_run_.insert(name);
  if (kind == "package-run") package_run_.insert(name);
}

void FileRules::find_roots() {
  torch_ = directory_of("torch");
  stdlib_ = directory_of("os");
  gramme_ = directory_of("gramme");
  by_file_ = take(PyDict_New());
}

bool FileRules::runs(PyObject* file) {
  if (PyObject* known = PyDict_GetItem(by_file_.get(), file)) return known == Py_True;
  const bool result = find_runs(utf8_of(file));
  check(PyDict_SetItem(by_file_.get(), file, result ? Py_True : Py_False));
  return result;
}

bool FileRules::is_of_torch(PyObject* file) const { return is_below(utf8_of(file), torch_, ""); }

bool FileRules::is_of_models(PyCodeObject* code) const {
  const std::string file = utf8_of(code->co_filename), name = utf8_of(code->co_name);
  if (is_below(file, torch_, "nn/modules/"))
    return name == "forward" || name == of_torch::text(of_torch::CallImpl) ||
           name == of_torch::text(of_torch::WrappedCallImpl);
  return is_below_any(file, of_torch::texts(of_torch::OfModels));
}

bool FileRules::is_tool(PyObject* name) const {
  const std::string file = utf8_of(name);
  return starts_with(file, "<frozen importlib") || is_below(file, stdlib_, "importlib/") ||
         is_below(file, gramme_, "") || is_below_any(file, of_torch::texts(of_torch::OfTools));
}

bool FileRules::is_below_any(std::string_view file, std::span<const char* const> paths) const {
  return std::ranges::any_of(paths, [&](const char* path) { return is_below(file, torch_, path); });
}

bool FileRules::find_runs(std::string_view file) const {
  if (starts_with(file, "<frozen ")) {
    std::string_view module = file.substr(8, file.find_first_of(".>") - 8);
    return stdlib_run_.contains(std::string(module));
  }
  if (!torch_.empty() && starts_with(file, torch_)) return torch_runs(file.substr(torch_.size()));
  if (!gramme_.empty() && starts_with(file, gramme_)) return true;
  for (std::string_view packages : {"/site-packages/", "/dist-packages/"})
    if (size_t at = file.rfind(packages); at != std::string_view::npos)
      return package_run_.contains(std::string(first_component(file.substr(at + packages.size()))));
  if (!stdlib_.empty() && starts_with(file, stdlib_))
    return stdlib_run_.contains(std::string(first_component(file.substr(stdlib_.size()))));
  return std::ranges::any_of(package_run_, [&](const std::string& name) { return is_of_package(file, name); });
}

bool FileRules::torch_runs(std::string_view path) const {
  auto matches = [path](const std::string& prefix) { return starts_with(path, prefix); };
  if (std::any_of(torch_outside_.begin(), torch_outside_.end(), matches)) return true;
  if (std::any_of(torch_inline_.begin(), torch_inline_.end(), matches)) return false;
  return std::any_of(torch_run_.begin(), torch_run_.end(), matches);
}

}  // namespace gramme::builtins
