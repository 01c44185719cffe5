// A way to an object that another process can go too: from a module that is imported, by names.
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

/// Each after the joint, then after a dot.
std::string print(const std::vector<PathStep>& steps, char joint);
/// What the steps lead to; null if there is nothing, or nothing to begin with.
Owned<> follow(Owned<> from, const std::vector<PathStep>& steps);
/// What lies at the end; null if there is nothing. Imports nothing and runs no Python.
Owned<> resolve(const Path& path);

/// Objects with the shortest way to each from where one began.
using Ways = std::unordered_map<PyObject*, std::vector<PathStep>>;
/// All that one comes to from an object of a module, itself too.
Ways ways_from(PyObject* object, const std::string& module);

/// The way to objects, by going through what modules hold. It is made on demand and for a short time: it is not told of
/// changes.
class Naming {
 public:
  Naming();
  ~Naming();
  Naming(const Naming&) = delete;
  /// Null if no module leads to it. The shortest way from the module that the object says it is of, else from any that
  /// has it as a global.
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
