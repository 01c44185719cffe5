#include "meta/targets.h"

#include <initializer_list>
#include <unordered_set>

#include "base/ref.h"

namespace gramme::meta {
namespace {

/// Callables and interned method names; held for good.
using Targets = std::unordered_set<PyObject*>;
using Names = std::unordered_set<std::string>;

void add(Targets& targets, const char* module, const std::string& name) {
  Owned<> owner = take(PyImport_ImportModule(module));
  if (PyObject* found = PyObject_GetAttrString(owner.get(), name.c_str()))
    targets.insert(found);
  else
    PyErr_Clear();
}

Targets* scalar_free() {
  auto* targets = new Targets;
  static constexpr const char* kNames[] = {
#define SCALAR_FREE(name) #name,
#include "meta/targets.def"
#undef SCALAR_FREE
  };
  for (std::string name : kNames) {
    add(*targets, "operator", name);
    add(*targets, "operator", "i" + name);
    add(*targets, "torch", name);
    for (const std::string& method : {name, name + "_", "__" + name + "__", "__r" + name + "__", "__i" + name + "__"})
      targets->insert(intern(method.c_str()));
  }
  return targets;
}

Targets* state_setters() {
  auto* targets = new Targets;
#define SETS_STATE(module, name) add(*targets, module, #name);
#include "meta/targets.def"
#undef SETS_STATE
  return targets;
}

bool listed(const Names& names, const AtenName& name) {
  return names.count(name.base) || names.count(name.base + "." + name.overload);
}

}  // namespace

bool ignores_scalar_values(PyObject* target) {
  static const Targets* targets = scalar_free();
  return targets->count(target) != 0;
}

bool sets_state(PyObject* target) {
  static const Targets* targets = state_setters();
  return targets->count(target) != 0;
}

bool raises_on_data(const AtenName& name) {
  static const auto* names = new Names{
#define RAISES_ON_DATA(name) name,
#include "meta/targets.def"
#undef RAISES_ON_DATA
  };
  return listed(*names, name);
}

bool raises_on_zero(const AtenName& name) {
  static const auto* names = new Names{
#define RAISES_ON_ZERO(name) name,
#include "meta/targets.def"
#undef RAISES_ON_ZERO
  };
  return listed(*names, name);
}

bool writes_running_statistics(const AtenName& name) {
  static const auto* names = new Names{
#define WRITES_STATISTICS(name) name,
#include "meta/targets.def"
#undef WRITES_STATISTICS
  };
  return listed(*names, name);
}

}  // namespace gramme::meta
