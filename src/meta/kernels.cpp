// Reads torch.library's registrations of Python kernels, and caches the answers until a registration changes.
#include "meta/kernels.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/imported.h"
#include "base/once.h"
#include "base/process.h"
#include "meta/origin.h"
#include "torch/calls.h"
#include "torch/names.h"

namespace gramme::meta {
namespace {

/// The set of torch.library that has "namespace/name.overload/key" for each kernel in Python; borrowed.
PyObject* registered_kernels() { return of_torch::object(of_torch::PythonKernels); }

/// True for namespaces whose Python kernels are PyTorch's own and read only their arguments.
bool is_of_pytorch(const std::string& name) {
  return of_torch::is_namespace_of_pytorch(std::string_view(name).substr(0, name.find(':')));
}

/// True for a kernel that PyTorch registers in Python for itself.
bool is_of_pytorch_itself(std::string_view row) {
  static constexpr std::string_view kRows[] = {
#define KERNEL(row) row,
#include "torch_kernels.def"
#undef KERNEL
      ""};
  return std::ranges::find(kRows, row) != std::end(kRows);
}

std::string row_prefix(const std::string& full) {
  return full.substr(0, full.find(':')) + "/" + full.substr(full.find(':') + 2) + "/";
}

bool has_kernel(const std::string& full, c10::DispatchKey key) {
  const size_t dot = full.find('.');
  auto handle =
      c10::Dispatcher::singleton().findSchema({full.substr(0, dot), dot == full.npos ? "" : full.substr(dot + 1)});
  return handle && handle->hasKernelForDispatchKey(key);
}

/// The keys under which there are kernels in Python.
std::vector<std::string> python_keys(const std::string& prefix) {
  std::vector<std::string> keys;
  Owned<> rows = take(PySequence_List(registered_kernels()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows.get()); ++i) {
    const char* row = PyUnicode_AsUTF8(PyList_GET_ITEM(rows.get(), i));
    if (!row) throw PythonError();
    if (!std::string_view(row).starts_with(prefix) || is_of_pytorch_itself(row)) continue;
    keys.emplace_back(std::string_view(row).substr(std::string_view(row).rfind('/') + 1));
  }
  return keys;
}

/// "namespace/name.overload/" of operators that run a Python kernel on some device, not counting kernels for fakes or
/// below torch.vmap.
std::unordered_set<std::string> overridden_prefixes() {
  std::unordered_set<std::string> prefixes;
  Owned<> rows = take(PySequence_List(registered_kernels()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows.get()); ++i) {
    const char* text = PyUnicode_AsUTF8(PyList_GET_ITEM(rows.get(), i));
    if (!text) throw PythonError();
    const std::string_view row = text;
    const size_t key = row.rfind('/') + 1;
    const of_torch::KernelKey kind = of_torch::kernel_key(row.substr(key));
    if (kind == of_torch::KernelKey::Fake || kind == of_torch::KernelKey::Batched || is_of_pytorch_itself(row))
      continue;
    prefixes.emplace(row.substr(0, key));
  }
  return prefixes;
}

/// True for keys of device kernels, which fakes bypass.
bool is_of_device(std::string_view key) {
  const of_torch::KernelKey kind = of_torch::kernel_key(key);
  return kind == of_torch::KernelKey::Device || kind == of_torch::KernelKey::Fake;
}

/// True for operators of torch.library.custom_op, whose kernels above the device are PyTorch's.
bool is_custom(const std::string& full) {
  PyObject* const known = of_torch::object(of_torch::CustomOperators);
  return check(PyMapping_HasKeyString(known, full.c_str()));
}

bool is_wrapped(std::string_view key) {
  return key == "Autograd" || key == "ADInplaceOrView" || key == "BackendSelect" || key.starts_with("Autocast");
}

bool infers_by_program(const std::string& full, bool mapped) {
  if (is_of_pytorch(full)) return false;
  for (const std::string& key : python_keys(row_prefix(full))) {
    if (is_of_device(key)) continue;
    if (key == "CompositeExplicitAutograd" && has_fake_kernel(full)) continue;
    if (of_torch::kernel_key(key) == of_torch::KernelKey::Batched && !mapped) continue;
    if (!is_wrapped(key) || !is_custom(full)) return true;
  }
  return false;
}

/// How full PyTorch's table of registered kernels is.
struct Fill {
  Py_ssize_t used = 0, fill = 0;
  const setentry* table = nullptr;
  bool operator==(const Fill&) const = default;
};

/// What infers_by_program() found of an operator.
struct Harmless {
  uint64_t kernels = 0;
  bool mapped = false;
};

struct State {
  uint64_t generation = 1;                           // GIL, a word: python_kernels()
  Fill registered;                                   // GIL: at the last note_python_kernels()
  uint64_t overridden_of = 0;                        // GIL: generation of `overridden`
  bool overridden = false;                           // GIL: kernels for PyTorch's own operators
  uint64_t prefixes_of = 0;                          // GIL: generation of `prefixes`
  std::unordered_set<std::string> prefixes;          // GIL: operators with kernels in Python
  std::unordered_map<PyObject*, Harmless> harmless;  // GIL: by operator
  std::vector<Owned<>> held;                         // GIL: those operators

  size_t size() const { return harmless.size(); }
};
OfProcess<State> state;

/// True if the program registered kernels for PyTorch's own operators; decompositions of torch.vmap do not count.
bool overrides_pytorch() {
  bool& overridden = state->overridden;
  if (state->overridden_of == python_kernels()) return overridden;
  overridden = false;
  for (const std::string& key : python_keys("aten/"))
    overridden |= !is_of_device(key) && of_torch::kernel_key(key) != of_torch::KernelKey::Batched;
  state->overridden_of = python_kernels();
  return overridden;
}

/// "namespace::name.overload" of operators that the target may call.
std::vector<std::string> operators_of(PyObject* target) {
  PyTypeObject* const overload = of_torch::type(of_torch::OpOverload);
  std::vector<std::string> names;
  if (PyObject_TypeCheck(target, overload)) {
    names.emplace_back(PyUnicode_AsUTF8(take(PyObject_CallMethod(target, "name", nullptr)).get()));
  } else if (is_operator(target)) {
    Owned<> base = take(PyObject_GetAttrString(target, of_torch::text(of_torch::QualifiedOpName)));
    Owned<> overloads = take(PySequence_List(take(PyObject_CallMethod(target, "overloads", nullptr)).get()));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(overloads.get()); ++i) {
      const std::string_view name = PyUnicode_AsUTF8(PyList_GET_ITEM(overloads.get(), i));
      names.push_back(PyUnicode_AsUTF8(base.get()) + (name == "default" ? "" : "." + std::string(name)));
    }
  }
  return names;
}

}  // namespace

uint64_t python_kernels() { return state->generation; }

void note_python_kernels() {
  // An addition uses a fresh slot or reallocates the table, so these fields change.
  const auto* rows = reinterpret_cast<PySetObject*>(registered_kernels());
  const Fill now{rows->used, rows->fill, rows->table};
  if (std::exchange(state->registered, now) != now) ++state->generation;
}

bool has_python_kernel(const std::string& full) {
  if (is_of_pytorch(full)) return false;
  note_python_kernels();
  if (std::exchange(state->prefixes_of, python_kernels()) != python_kernels()) state->prefixes = overridden_prefixes();
  return state->prefixes.contains(row_prefix(full));
}

bool is_own_operator(const std::string& full) {
  return is_of_pytorch(full) || (full.starts_with("aten::") && !has_python_kernel(full));
}

bool has_fake_kernel(const std::string& full) {
  PyObject* const registry = of_torch::object(of_torch::FakeKernels);
  if (has_kernel(full, c10::DispatchKey::Meta)) return true;
  Owned<> entry = take(PyObject_CallMethod(registry, "get", "s", full.c_str()));
  if (entry.get() == Py_None) return false;
  Owned<> holder = take(PyObject_GetAttrString(entry.get(), "fake_impl"));
  return take(PyObject_GetAttrString(holder.get(), "kernel")).get() != Py_None;
}

bool infers_by_program(const Call& call, bool mapped) {
  if (overrides_pytorch()) return true;
  if (call.kind != Call::Function || PyCFunction_Check(call.target) || PyFunction_Check(call.target)) return false;
  auto found = state->harmless.find(call.target);
  if (found != state->harmless.end() && found->second.kernels == python_kernels() && found->second.mapped == mapped)
    return false;
  for (const std::string& name : operators_of(call.target))
    if (infers_by_program(name, mapped)) return true;
  auto [entry, added] = state->harmless.insert_or_assign(call.target, Harmless{python_kernels(), mapped});
  if (added) state->held.push_back(share(entry->first));  // kept alive: keys are addresses
  return false;
}

bool is_self_contained(const std::string& name) {
  auto module = Owned<>::steal(import_module("gramme._operators"));
  auto answer =
      Owned<>::steal(module ? PyObject_CallMethod(module.get(), "is_self_contained", "s", name.c_str()) : nullptr);
  PyErr_Clear();
  return answer.get() == Py_True;
}

}  // namespace gramme::meta
