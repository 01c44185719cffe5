// Finds paths to objects: a breadth-first search through modules, so that the shortest path comes first.
#include <deque>

#include "base/type_dict.h"
#include "cpython/objects.h"
#include "portable/path.h"
#include "portable/raw.h"
#include "torch/names.h"

namespace gramme::portable {
namespace {

constexpr size_t kLongestPath = 10;

/// False for objects whose path is never needed: constants, and objects that many others share.
bool is_worth_a_way(PyObject* object) {
  return !(object == Py_None || PyBool_Check(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
           PyUnicode_CheckExact(object) || PyBytes_CheckExact(object) || PyTuple_CheckExact(object) ||
           PyList_CheckExact(object) || PyDict_CheckExact(object));
}

template <class Visit>
void each_module(Visit&& visit) {
  PyObject *name, *module;
  for (Py_ssize_t at = 0; PyDict_Next(PyImport_GetModuleDict(), &at, &name, &module);)
    if (PyModule_Check(module))
      if (const std::string text = text_or_empty(name); !text.empty()) visit(text, module);
}

std::string file_of(PyObject* module) { return text_or_empty(child(module, {StepKind::Attr, "__file__"}).get()); }

bool leads_to(const Path& path, PyObject* object) { return resolve(path).get() == object; }

}  // namespace

Ways ways_from(PyObject* from, const std::string& module) {
  std::deque<PyObject*> next = {from};
  Ways ways = {{from, {}}};
  for (; !next.empty(); next.pop_front()) {
    const std::vector<PathStep> way = ways.at(next.front());
    if (way.size() >= kLongestPath) continue;
    for (auto& [step, object] : children(next.front(), module)) {
      if (!is_worth_a_way(object.get()) || PyModule_Check(object.get()) || ways.contains(object.get())) continue;
      std::vector<PathStep>& longer = ways[object.get()] = way;
      longer.push_back(step);
      next.push_back(object.get());
    }
  }
  return ways;
}

Naming::Naming() = default;
Naming::~Naming() = default;

const Naming::Index& Naming::index_of(const std::string& name) {
  const auto [known, is_new] = modules_.try_emplace(name);
  Index& index = known->second;
  PyObject* module = is_new ? module_named(name) : nullptr;
  if (!module) return index;
  for (auto& [object, steps] : ways_from(module, name)) index.emplace(object, Path{name, std::move(steps)});
  return index;
}

const Path* Naming::find_in(const std::string& module, PyObject* object) {
  const Index& index = index_of(module);
  const auto found = index.find(object);
  return found != index.end() && leads_to(found->second, object) ? &found->second : nullptr;
}

void Naming::index_globals() {
  if (std::exchange(has_globals_, true)) return;
  each_module([&](const std::string& name, PyObject* module) {
    if (const std::string file = file_of(module); !file.empty()) modules_of_file_.emplace(file, name);
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(PyModule_GetDict(module), &at, &key, &value);)
      if (is_worth_a_way(value) && !globals_.contains(value))
        if (const std::string text = text_or_empty(key); !text.empty())
          globals_.emplace(value, Path{name, {{StepKind::Attr, text}}});
  });
}

const Path* Naming::find_module(PyObject* module) {
  const std::string name = module_of(module);
  if (name.empty() || module_named(name) != module) return nullptr;
  return keep(module, Path{name, {}});
}

const Path* Naming::find_code(PyObject* code) {
  index_globals();
  const std::string file = text_or_empty(reinterpret_cast<PyCodeObject*>(code)->co_filename);
  const auto [first, last] = modules_of_file_.equal_range(file);
  for (auto it = first; it != last; ++it)
    if (const Path* path = find_in(it->second, code)) return path;
  return nullptr;
}

/// The path of a torch operator, which is an attribute after its first use: torch.ops.aten.add.Tensor.
const Path* Naming::find_operator(PyObject* object) {
  PyObject *overload = of_torch::if_loaded(of_torch::OpOverload),
           *packet = of_torch::if_loaded(of_torch::OpOverloadPacket);
  auto is_operator = [&](PyObject* each) {
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(each));
    return type == overload || type == packet;
  };
  if (!is_operator(object)) return nullptr;
  const Owned<> all = follow(share(module_named("torch")), {{StepKind::Attr, "ops"}});
  if (!all || !PyModule_Check(all.get())) return nullptr;
  for (auto& [in_ops, space] : own_attributes(all.get())) {
    if (!PyModule_Check(space.get())) continue;
    for (auto& [in_space, operators] : own_attributes(space.get())) {
      if (!is_operator(operators.get())) continue;
      const Path path{"torch", {{StepKind::Attr, "ops"}, in_ops, in_space}};
      if (operators.get() == object) return keep(object, path);
      for (auto& [in_packet, each] : own_attributes(operators.get()))
        if (each.get() == object)
          return keep(object, {"torch", {{StepKind::Attr, "ops"}, in_ops, in_space, in_packet}});
    }
  }
  return nullptr;
}

const Path* Naming::keep(PyObject* object, Path path) {
  if (!leads_to(path, object)) return nullptr;
  return &others_.insert_or_assign(object, std::move(path)).first->second;
}

/// The path of a C descriptor through its class, for classes of CPython that no module holds.
const Path* Naming::find_descriptor(PyObject* descriptor) {
  PyTypeObject* type = Py_TYPE(descriptor);
  if (type != &PyMethodDescr_Type && type != &PyWrapperDescr_Type && type != &PyClassMethodDescr_Type &&
      type != &PyGetSetDescr_Type && type != &PyMemberDescr_Type)
    return nullptr;
  const Path* cls = find(reinterpret_cast<PyObject*>(PyDescr_TYPE(descriptor)));
  if (!cls) return nullptr;
  Path path = *cls;
  path.steps.push_back({StepKind::Attr, text_or_empty(PyDescr_NAME(descriptor))});
  return keep(descriptor, std::move(path));
}

/// Looks in modules that were searched before: functions of named tuples name no module.
const Path* Naming::find_in_known(PyObject* object) {
  for (const auto& [module, index] : modules_)
    if (const auto found = index.find(object); found != index.end() && leads_to(found->second, object))
      return &found->second;
  return nullptr;
}

const Path* Naming::find(PyObject* object) {
  if (PyModule_Check(object)) return find_module(object);
  if (PyCode_Check(object))
    if (const Path* path = find_code(object)) return path;
  if (const std::string module = module_of(object); !module.empty())
    if (const Path* path = find_in(module, object)) return path;
  index_globals();
  if (const auto found = globals_.find(object); found != globals_.end() && leads_to(found->second, object))
    return &found->second;
  if (const Path* path = find_operator(object)) return path;
  if (const Path* path = find_descriptor(object)) return path;
  // An attribute of its class: an enumeration's member, a class's own constant.
  if (const Path* path = find_in(module_of(reinterpret_cast<PyObject*>(Py_TYPE(object))), object)) return path;
  return find_in_known(object);
}

}  // namespace gramme::portable
