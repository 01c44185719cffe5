// The way to objects: modules gone through breadth first, so that the shortest way is found first.
#include <deque>

#include "base/type_dict.h"
#include "cpython/objects.h"
#include "portable/path.h"
#include "portable/raw.h"

namespace gramme::portable {
namespace {

constexpr size_t kLongestPath = 10;

/// What nobody asks the way to: constants, and what is shared by many.
bool is_worth_a_way(PyObject* object) {
  return !(object == Py_None || PyLong_Check(object) || PyFloat_Check(object) || PyUnicode_Check(object) ||
           PyBytes_Check(object) || PyTuple_CheckExact(object) || PyList_CheckExact(object));
}

template <class Visit>
void each_module(Visit&& visit) {
  PyObject *name, *module;
  for (Py_ssize_t at = 0; PyDict_Next(PyImport_GetModuleDict(), &at, &name, &module);)
    if (PyModule_Check(module))
      if (const std::string text = text_or_empty(name); !text.empty()) visit(text, module);
}

std::string file_of(PyObject* module) {
  return text_or_empty(child(module, {StepKind::Attr, "__file__"}).get());
}

bool leads_to(const Path& path, PyObject* object) { return resolve(path).get() == object; }

}  // namespace

Naming::Naming() = default;
Naming::~Naming() = default;

const Naming::Index& Naming::index_of(const std::string& name) {
  const auto [known, is_new] = modules_.try_emplace(name);
  Index& index = known->second;
  PyObject* module = is_new ? module_named(name) : nullptr;
  if (!module) return index;
  std::deque<PyObject*> next = {module};
  std::unordered_map<PyObject*, Path> ways = {{module, {name, {}}}};
  for (; !next.empty(); next.pop_front()) {
    const Path way = ways.at(next.front());
    index.emplace(next.front(), way);
    if (way.steps.size() >= kLongestPath) continue;
    for (auto& [step, object] : children(next.front(), name)) {
      const bool is_other_module = PyModule_Check(object.get()) && object.get() != module;
      if (!is_worth_a_way(object.get()) || is_other_module || ways.contains(object.get())) continue;
      Path longer = way;
      longer.steps.push_back(step);
      ways.emplace(object.get(), std::move(longer));
      next.push_back(object.get());
    }
  }
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
  return &others_.insert_or_assign(module, Path{name, {}}).first->second;
}

const Path* Naming::find_code(PyObject* code) {
  index_globals();
  const std::string file = text_or_empty(reinterpret_cast<PyCodeObject*>(code)->co_filename);
  const auto [first, last] = modules_of_file_.equal_range(file);
  for (auto it = first; it != last; ++it)
    if (const Path* path = find_in(it->second, code)) return path;
  return nullptr;
}

/// Operators of torch are kept where they were first asked for: torch.ops.aten.add.Tensor.
const Path* Naming::find_operator(PyObject* object) {
  const auto own = [&](PyObject* of, const char* name) { return child(of, {StepKind::Attr, name}); };
  Owned<> packet = own(object, "_overloadpacket");
  const std::string overload = packet ? text_or_empty(own(object, "_overloadname").get()) : "";
  const std::string name = text_or_empty(own(packet ? packet.get() : object, "_qualified_op_name").get());
  const size_t colons = name.find("::");
  if (colons == std::string::npos) return nullptr;
  Path path{"torch", {{StepKind::Attr, "ops"}}};
  path.steps.push_back({StepKind::Attr, name.substr(0, colons)});
  path.steps.push_back({StepKind::Attr, name.substr(colons + 2)});
  if (packet) path.steps.push_back({StepKind::Attr, overload.empty() ? "default" : overload});
  if (!leads_to(path, object)) return nullptr;
  return &others_.insert_or_assign(object, std::move(path)).first->second;
}

const Path* Naming::find(PyObject* object) {
  if (PyModule_Check(object)) return find_module(object);
  if (PyCode_Check(object)) return find_code(object);
  if (const std::string module = module_of(object); !module.empty())
    if (const Path* path = find_in(module, object)) return path;
  index_globals();
  if (const auto found = globals_.find(object); found != globals_.end() && leads_to(found->second, object))
    return &found->second;
  if (const Path* path = find_operator(object)) return path;
  // An object of a class: an enumeration's member, a class's own constant.
  const std::string module = module_of(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  return find_in(module, object);
}

}  // namespace gramme::portable
