// A path to an object that is valid in another process too: from an imported module through named steps.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ref.h"

namespace gramme::portable {

enum class StepKind : uint8_t {
#define STEP(name, ...) name,
#include "portable/steps.def"
#undef STEP
};

struct PathStep {
  StepKind kind;
  std::string name = {};
  int64_t index = 0;
};

struct Path {
  std::string module;
  std::vector<PathStep> steps;  // none: the module itself
  /// "torch.nn.functional:relu", "model:Block.forward.<code>.<3>"
  std::string print() const;
};

/// The steps as text: `joint` before the first, a dot before the others.
std::string print(const std::vector<PathStep>& steps, char joint);
/// The object at the end of the steps; null if there is none, or `from` is null.
Owned<> follow(Owned<> from, const std::vector<PathStep>& steps);
/// The object at the path's end; null if there is none. Imports nothing and runs no Python.
Owned<> resolve(const Path& path);

/// Objects with the shortest path to each from a starting object.
using Ways = std::unordered_map<PyObject*, std::vector<PathStep>>;
/// Everything reachable from an object of a module, including the object.
Ways ways_from(PyObject* object, const std::string& module);

/// Finds paths by searching modules on demand. Use it for a short time only: it does not notice changes.
class Naming {
 public:
  Naming();
  ~Naming();
  Naming(const Naming&) = delete;
  /// The shortest path from the object's own module, else from any module that holds it as a global; null if there is
  /// none.
  const Path* find(PyObject* object);

 private:
  using Index = std::unordered_map<PyObject*, Path>;
  const Index& index_of(const std::string& module);
  const Path* find_in(const std::string& module, PyObject* object);
  const Path* find_operator(PyObject* object);
  const Path* find_module(PyObject* module);
  const Path* find_descriptor(PyObject* descriptor);
  const Path* find_in_known(PyObject* object);
  const Path* keep(PyObject* object, Path path);
  const Path* find_code(PyObject* code);
  void index_globals();

  std::unordered_map<std::string, Index> modules_;
  Index globals_, others_;
  std::unordered_multimap<std::string, std::string> modules_of_file_;
  bool has_globals_ = false;
};

}  // namespace gramme::portable
