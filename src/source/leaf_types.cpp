#include "source/leaf_types.h"

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/process.h"
#include "base/ref.h"
#include "base/type_dict.h"
#include "source/constant.h"

namespace gramme::source {

namespace {

struct LeafType {
  PyTypeObject* type;  // null while its module is not loaded; held
  size_t size;         // in bytes; 0 if there are getters
  PyTypeObject* base;
  const char* module;
  std::vector<PyObject*> getters;  // of the base
};

/// The part of a type's name behind the last dot.
std::string_view own_name(PyTypeObject* type) {
  const std::string_view name = type->tp_name;
  return name.substr(name.rfind('.') + 1);
}

bool is_class_of(const LeafType& known, PyTypeObject* type) {
  if (type->tp_base != known.base || own_name(type) != own_name(known.base)) return false;
  static PyObject* const k_module = PyUnicode_InternFromString("__module__");
  PyObject* module = PyDict_GetItemWithError(type_dict(type), k_module);
  return module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, known.module) == 0;
}

/// A few bits of addresses, by which most types are told apart from those in a table without searching it.
class Filter {
 public:
  void add(const void* address) { bits_ |= bit(address); }
  bool may_have(const void* address) const { return bits_ & bit(address); }

 private:
  static uint64_t bit(const void* address) {
    return uint64_t{1} << (reinterpret_cast<uintptr_t>(address) * 0x9e3779b97f4a7c15u >> 58);
  }
  uint64_t bits_ = 0;
};

/// Filled at import. Types join when they are first met.
struct State {
  std::vector<LeafType> leaves;  // GIL
  Filter known_types;            // GIL: of leaf types that have a type
  Filter known_bases;            // GIL: of those that have none yet
};
Lasting<State> state;

const LeafType* find(PyTypeObject* type) {
  if (!state->known_types.may_have(type) && !state->known_bases.may_have(type->tp_base)) return nullptr;
  for (LeafType& known : state->leaves) {
    if (known.type == type) return &known;
    if (known.type || !is_class_of(known, type)) continue;
    known.type = reinterpret_cast<PyTypeObject*>(Py_NewRef(reinterpret_cast<PyObject*>(type)));
    state->known_types.add(type);
    return &known;
  }
  return nullptr;
}

std::string_view bytes_of(PyObject* object, size_t size) {
  return {reinterpret_cast<const char*>(object) + sizeof(PyObject), size};
}

/// What the getter in C gives; null if the instance has not been initialized.
Owned<> field(PyObject* getter, PyObject* leaf) {
  Owned<> found = Owned<>::steal(PyObject_CallOneArg(getter, leaf));
  if (!found) PyErr_Clear();
  return found;
}

}  // namespace

void add_leaf_type(PyTypeObject* type, size_t size) {
  state->leaves.push_back({type, size, nullptr, nullptr, {}});
  state->known_types.add(type);
}

void add_leaf_class(PyTypeObject* base, const char* module, std::vector<PyObject*> getters) {
  state->leaves.push_back({nullptr, 0, base, module, std::move(getters)});
  state->known_bases.add(base);
}

bool is_leaf_type(PyTypeObject* type) { return find(type) != nullptr; }

bool is_scalar(PyObject* object) {
  const LeafType* known = find(Py_TYPE(object));
  return known && known->size;
}

bool same_leaf(PyObject* a, PyObject* b) {
  const LeafType& known = *find(Py_TYPE(a));
  if (known.size) return bytes_of(a, known.size) == bytes_of(b, known.size);
  for (PyObject* getter : known.getters) {
    const Owned<> of_a = field(getter, a), of_b = field(getter, b);
    if (!of_a || !of_b || !same_constant(of_a.get(), of_b.get())) return false;
  }
  return true;
}

size_t leaf_hash(PyObject* leaf) {
  const LeafType& known = *find(Py_TYPE(leaf));
  if (known.size) return std::hash<std::string_view>()(bytes_of(leaf, known.size));
  size_t hash = known.getters.size();
  for (PyObject* getter : known.getters)
    if (const Owned<> value = field(getter, leaf)) hash = hash * 31 + constant_hash(value.get());
  return hash;
}

}  // namespace gramme::source
