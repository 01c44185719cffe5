// Classifies a step's target by name and module, mostly by the tables in torch_calls.def.
#include "record/targets.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "base/imported.h"
#include "base/integer.h"
#include "base/once.h"
#include "meta/origin.h"
#include "torch/calls.h"
#include "torch/names.h"

namespace gramme::native {
namespace {

using Names = std::unordered_set<std::string_view>;

std::string text_of(PyObject* object, const char* name) {
  Owned<> found = Owned<>::steal(PyObject_GetAttrString(object, name));
  if (!found) PyErr_Clear();
  if (!found || !PyUnicode_Check(found.get())) return {};
  return PyUnicode_AsUTF8(found.get());
}

/// A method's name, or the target's own name.
std::string name_of(const Step& step) {
  return step.kind == Step::Method ? PyUnicode_AsUTF8(step.target.get()) : text_of(step.target.get(), "__name__");
}

bool is_within(const std::string& module, std::string_view package) {
  return module == package ||
         (module.size() > package.size() && module.starts_with(package) && module[package.size()] == '.');
}

/// The module of a function; for a method of a C type, the type's module.
std::string module_of(PyObject* target) {
  std::string module = text_of(target, "__module__");
  if (!module.empty()) return module;
  Owned<> owner = Owned<>::steal(PyObject_GetAttrString(target, "__objclass__"));
  if (!owner) {
    PyErr_Clear();
    owner = Owned<>::steal(PyObject_GetAttrString(target, "__self__"));  // torch._C._nn.gelu and the like
  }
  if (!owner) PyErr_Clear();
  if (!owner) return {};
  if (PyModule_Check(owner.get())) return text_of(owner.get(), "__name__");
  PyObject* type = PyType_Check(owner.get()) ? owner.get() : reinterpret_cast<PyObject*>(Py_TYPE(owner.get()));
  return text_of(type, "__module__");
}

bool is_fixed(const Operand& operand) {
  PyObject* object = operand.object.get();
  switch (operand.kind) {
    case Operand::Value:
      return false;
    case Operand::Constant:
      return object == Py_None || PyBool_Check(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
             PyComplex_CheckExact(object) || PyUnicode_CheckExact(object) || THPDtype_Check(object) ||
             THPDevice_Check(object) || THPLayout_Check(object);
    case Operand::Tuple:
    case Operand::List:
    case Operand::Dict:
    case Operand::Slice:
      return std::all_of(operand.items.begin(), operand.items.end(),
                         [](const Operand& item) { return is_fixed(item); });
  }
  return false;
}

bool is_transparent(const Step& step) {
  PyTypeObject* const higher_order = of_torch::type(of_torch::HigherOrderOperator);
  if (of_torch::is_call(name_of(step), of_torch::Opaque)) return false;
  if (step.kind == Step::Method) return true;
  PyObject* target = step.target.get();
  if (PyObject_TypeCheck(target, higher_order) || PyType_Check(target)) return false;
  if (meta::is_of_numpy(target)) return !meta::calls_numpy(target);
  const std::string module = module_of(target);
  static const Names exact = {"_operator", "operator", "math", "builtins"};
  auto is_it = [&](std::string_view name) { return module == name; };
  if (exact.count(module) || std::ranges::any_of(of_torch::texts(of_torch::OfOperators), is_it)) return true;
  for (std::string_view package : of_torch::texts(of_torch::PackageOfOperators))
    if (is_within(module, package)) return true;
  return false;
}

std::string operator_of_program(const Step& step) {
  std::string name = operator_of(step);
  return of_torch::is_namespace_of_pytorch(std::string_view(name).substr(0, name.find(':'))) ? std::string() : name;
}

bool leaves_uninitialized(const Step& step) {
  const std::string name = name_of(step);
  return name.starts_with("empty") || name.starts_with("new_empty") || name.starts_with("aten::empty") ||
         name.starts_with("aten::new_empty");
}

}  // namespace

std::string operator_of(const Step& step) {
  PyObject* target = step.target.get();
  if (step.kind == Step::Method || !meta::is_operator(target)) return {};
  const bool overload = PyObject_TypeCheck(target, of_torch::type(of_torch::OpOverload));
  Owned<> packet =
      overload ? take(PyObject_GetAttrString(target, of_torch::text(of_torch::OverloadPacket))) : share(target);
  return text_of(packet.get(), of_torch::text(of_torch::QualifiedOpName));
}

const Targets::Traits& Targets::of(const Step& step) {
  auto found = known_.find(step.target.get());
  if (found == known_.end())
    found = known_
                .emplace(step.target.get(),
                         Traits{is_transparent(step), leaves_uninitialized(step), operator_of_program(step)})
                .first;
  return found->second;
}

bool may_do_nothing(const Step& step) {
  return step.kind == Step::Method && of_torch::is_call(name_of(step), of_torch::Converts);
}

bool only_counts(const Step& step) { return of_torch::is_call(name_of(step), of_torch::OnlyCounts); }

bool is_contiguous_call(const Step& step) {
  return step.kind == Step::Method && name_of(step) == "contiguous" && step.arguments.size() == 1 &&
         step.keywords.empty() && step.arguments[0].kind == Operand::Value;
}

bool tells_metadata(const Step& step) {
  static const Names attributes = {"shape", "dtype", "device", "ndim", "layout", "is_cuda", "is_sparse"};
  if (step.kind == Step::Method) return of_torch::is_call(name_of(step), of_torch::TellsMetadata);
  if (name_of(step) != "getattr" || step.arguments.size() != 2) return false;
  PyObject* attribute = step.arguments[1].object.get();
  return attribute && PyUnicode_Check(attribute) && attributes.count(PyUnicode_AsUTF8(attribute)) != 0;
}

namespace {

/// True for an F.embedding(input, weight, padding_idx, max_norm, …) that neither renormalises nor uses a negative
/// padding index.
bool only_looks_up(const Step& step) {
  auto given = [&](size_t position, const char* name) -> PyObject* {
    const Operand* operand = position < step.arguments.size() ? &step.arguments[position] : nullptr;
    for (const auto& [keyword, value] : step.keywords)
      if (PyUnicode_CompareWithASCIIString(keyword.get(), name) == 0) operand = &value;
    if (!operand) return Py_None;
    return operand->kind == Operand::Constant ? operand->object.get() : nullptr;
  };
  PyObject *padding = given(2, "padding_idx"), *norm = given(3, "max_norm");
  const bool from_start = padding == Py_None || (padding && PyLong_CheckExact(padding) && sign_of(padding) >= 0);
  return from_start && norm == Py_None;
}

/// True for Python functions that call one operator for all sizes.
bool passes_on(const Step& step, const std::string& name) {
  if (module_of(step.target.get()) != "torch.nn.functional") return false;
  return of_torch::is_call(name, of_torch::PassesOn) || (name == "embedding" && only_looks_up(step));
}

}  // namespace

bool looks_at_sizes(const Step& step) {
  PyObject* const tensor_type = once([] { return imported("torch", "Tensor").release(); });
  const std::string name = name_of(step);
  if (name == "getitem" || name == "setitem" || name == "__getitem__" || name == "__setitem__") return true;
  if (step.kind == Step::Function) return PyFunction_Check(step.target.get()) && !passes_on(step, name);
  if (name == "split") return false;  // the Python function only calls the operator
  Owned<> method = Owned<>::steal(PyObject_GetAttr(tensor_type, step.target.get()));
  if (!method) PyErr_Clear();
  return !method || PyFunction_Check(method.get());
}

bool is_arithmetic(const Step& step) {
  if (step.kind == Step::Method) return false;
  const std::string module = module_of(step.target.get());
  return module == "_operator" || module == "math";
}

bool is_fixed(const Step& step) {
  auto fixed = [](const Operand& operand) { return is_fixed(operand); };
  auto named = [](const auto& keyword) { return is_fixed(keyword.second); };
  return !step.arguments.empty() && std::all_of(step.arguments.begin(), step.arguments.end(), fixed) &&
         std::all_of(step.keywords.begin(), step.keywords.end(), named);
}

bool reads_numbers(const Step& step) { return of_torch::is_call(name_of(step), of_torch::ReadsData); }

bool is_size_call(const Step& step) {
  return step.kind == Step::Method && name_of(step) == "size" && step.arguments.size() == 2 && step.keywords.empty() &&
         step.arguments[0].kind == Operand::Value && step.arguments[1].kind == Operand::Constant &&
         PyLong_CheckExact(step.arguments[1].object.get());
}

bool makes_literal(const Step& step) {
  PyObject* const tensor = once([] { return imported("torch", "tensor").release(); });
  return step.kind == Step::Function && step.target.get() == tensor;
}

bool is_getitem(const Step& step) {
  PyObject* const getitem = once([] { return imported("operator", "getitem").release(); });
  return step.kind == Step::Function && step.target.get() == getitem && step.arguments.size() == 2;
}

}  // namespace gramme::native
