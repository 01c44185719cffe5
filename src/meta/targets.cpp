// Sets and maps filled from torch_targets.def.
#include "meta/targets.h"

#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/imported.h"
#include "base/once.h"
#include "base/ref.h"
#include "torch/names.h"

namespace gramme::meta {
namespace {

/// Callables and interned method names, kept alive.
using Targets = std::unordered_set<PyObject*>;
using Names = std::unordered_set<std::string>;

void add(Targets& targets, const char* module, const std::string& name) {
  Owned<> owner = take(import_module(module));
  if (PyObject* found = PyObject_GetAttrString(owner.get(), name.c_str()))
    targets.insert(found);
  else
    PyErr_Clear();
}

Targets* state_setters() {
  auto* targets = new Targets;
  for (const auto& [module, name] : of_torch::places(of_torch::SetsState)) add(*targets, module, name);
  return targets;
}

bool listed(const Names& names, const AtenName& name) {
  return names.count(name.base) || names.count(name.base + "." + name.overload);
}

AtenName out_of_place(AtenName name) {
  if (name.base.ends_with('_') && !name.base.starts_with("__")) name.base.pop_back();
  return name;
}

}  // namespace

bool sets_state(PyObject* target) {
  const Targets* targets = once([] { return state_setters(); });
  return targets->count(target) != 0;
}

Warns kernel_warns(const AtenName& name) {
  // no Python: strings of C++
  static const auto* const known = new std::unordered_map<std::string, Warns>{
#define KERNEL_WARNS(name, when) {name, Warns::when},
#include "torch_targets.def"
#undef KERNEL_WARNS
  };
  const AtenName plain = out_of_place(name);
  auto found = known->find(plain.base);
  if (found == known->end()) found = known->find(plain.base + "." + plain.overload);
  return found == known->end() ? Warns::Never : found->second;
}

bool cannot_raise(const AtenName& name) {
  // no Python: strings of C++
  static const auto* const names = new Names{
#define CANNOT_RAISE(name) name,
#include "torch_targets.def"
#undef CANNOT_RAISE
  };
  if (listed(*names, name)) return true;
  AtenName plain = name;
  if (plain.base.starts_with("_foreach_")) plain.base.erase(0, std::string_view("_foreach_").size());
  return listed(*names, out_of_place(plain));
}

bool raises_on_integers(const AtenName& name) {
  // no Python: strings of C++
  static const auto* const names = new Names{
#define RAISES_ON_INTEGERS(name) name,
#include "torch_targets.def"
#undef RAISES_ON_INTEGERS
  };
  return listed(*names, name);
}

Numbers checked_numbers(const AtenName& name) {
  // no Python: strings of C++
  static const auto* const known = new std::unordered_map<std::string, Numbers>{
#define CHECKS_NUMBERS(name, numbers) {name, Numbers::numbers},
#include "torch_targets.def"
#undef CHECKS_NUMBERS
  };
  auto found = known->find(name.base + "." + name.overload);
  return found == known->end() ? Numbers::Any : found->second;
}

bool writes_running_statistics(const AtenName& name) {
  // no Python: strings of C++
  static const auto* const names = new Names{
#define WRITES_STATISTICS(name) name,
#include "torch_targets.def"
#undef WRITES_STATISTICS
  };
  return listed(*names, name);
}

}  // namespace gramme::meta
