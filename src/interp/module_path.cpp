// Finds a module's path: a bounded depth-first search through the `_modules` dicts of objects that the frames hold.
#include "interp/module_path.h"

#include <unordered_set>

#include "base/imported.h"
#include "base/once.h"
#include "torch/names.h"

namespace gramme::interp {
namespace {

constexpr size_t kMostLookedAt = 20000;

/// Searches a tree of modules.
class Search {
 public:
  explicit Search(uintptr_t wanted) : wanted_(wanted) {}

  /// Appends the path from this module to the wanted one; false if it is not below.
  bool below(PyObject* module, std::string& path) {
    if (reinterpret_cast<uintptr_t>(module) == wanted_) return true;
    if (seen_.size() > kMostLookedAt || !seen_.insert(module).second || !is_module(module)) return false;
    const Owned<> dict = take(PyObject_GenericGetDict(module, nullptr));
    PyObject* const parts = PyDict_GetItemWithError(dict.get(), of_torch::attribute(of_torch::Submodules));
    if (!parts || !PyDict_Check(parts)) return false;
    const size_t length = path.size();
    PyObject *key, *part;
    for (Py_ssize_t at = 0; PyDict_Next(parts, &at, &key, &part);) {
      const char* const name = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : nullptr;
      if (!name) continue;
      path += std::string("._modules['") + name + "']";  // no name of torch: a source's text
      if (below(part, path)) return true;
      path.resize(length);
    }
    return false;
  }

 private:
  static bool is_module(PyObject* object) {
    PyTypeObject* const module = once([] { return imported_type("torch.nn", "Module"); });
    return PyType_IsSubtype(Py_TYPE(object), module);
  }

  uintptr_t wanted_;  // an address
  std::unordered_set<PyObject*> seen_;
};

bool find(Search& search, PyCodeObject* code, PyObject* const* locals, std::string& path) {
  for (int i = 0; i < code->co_nlocals; ++i) {
    if (!locals[i]) continue;
    const char* const name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(code->co_localsplusnames, i));
    path = std::string("L['") + (name ? name : "?") + "']";
    if (search.below(locals[i], path)) return true;
  }
  return false;
}

}  // namespace

std::string path_from_frames(const Start& start, uintptr_t module) {
  Search search(module);
  std::string path;
  for (auto caller = start.callers.rbegin(); caller != start.callers.rend(); ++caller)
    if (find(search, caller->code, caller->locals, path)) return path;
  return find(search, start.code, start.locals, path) ? path : "";
}

}  // namespace gramme::interp
