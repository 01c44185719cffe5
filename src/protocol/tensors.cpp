// Compares what lookups find on tensor classes with PyTorch's originals, which are noted at import, and guards that
// they stay.
#include "protocol/tensors.h"

#include <string_view>
#include <unordered_map>

#include "aten/classes.h"
#include "base/imported.h"
#include "base/once.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "guards/marks.h"
#include "protocol/operator_table.h"
#include "torch/names.h"

namespace gramme::protocol {

using namespace value;

namespace {

/// PyTorch's original attributes of tensor classes, kept for the life of the process.
struct Torch {
  PyTypeObject* tensor;
  PyObject *inherited, *disabled;                    // __torch_function__ as found on a class
  std::unordered_map<PyObject*, PyObject*> methods;  // special methods of torch.Tensor by interned name

  Torch() {
    PyObject* module = take(import_module("torch")).release();
    tensor = reinterpret_cast<PyTypeObject*>(take(PyObject_GetAttrString(module, "Tensor")).release());
    disabled = of_torch::object(of_torch::DisabledTorchFunctionImpl);
    inherited = share(cpython::type_lookup(tensor, intern("__torch_function__"))).release();
    for (int op = 0; op < kOperators; ++op)
      for (PyObject* name : {operator_row(op).method, operator_row(op).reflected, operator_row(op).in_place_method})
        note(name);
    for (int op = Py_LT; op <= Py_GE; ++op) note(comparison_row(op).method);
    for (const char* name : {"__neg__", "__pos__", "__invert__", "__abs__", "__getitem__", "__setitem__", "__len__",
                             "__iter__", "__reversed__", "unbind", "dim", "shape"})
      note(intern(name));
  }

 private:
  void note(PyObject* name) { methods[name] = share(cpython::type_lookup(tensor, name)).release(); }
};

const Torch& torch() {
  return *once([] { return new Torch; });
}

}  // namespace

void note_tensor_methods() { torch(); }

Asked asked_for(Trace& trace, const Tensor* tensor) {
  static PyObject* const name = intern("__torch_function__");
  PyTypeObject* type = tensor->record->type;
  if (aten::is_exact_tensor_type(type) || !trace.scope().modes().handlers_on()) return Asked::Nobody;
  if (tensor->record->opaque) return Asked::Nobody;  // a jagged tensor, whose class is asked where the graph runs
  PyObject* found = trace.type_lookup(type, name);
  if (!found || found == torch().disabled) return Asked::Nobody;
  return found == torch().inherited ? Asked::Default : Asked::Subclass;
}

void refuse_torch_function(Trace& trace, const Tensor* tensor, const std::string& wanted) {
  if (asked_for(trace, tensor) == Asked::Subclass)
    cannot(Reason::CallUnknown, wanted + " of a tensor whose class has a __torch_function__");
}

void refuse_jagged(const meta::Record& record, const std::string& wanted) {
  if (record.opaque)
    cannot(Reason::TensorSubclass, wanted + " of a " + record.type->tp_name + ", whose sizes its class knows");
}

void refuse_subclass(const Tensor* tensor, const std::string& wanted) {
  if (!aten::is_exact_tensor_type(tensor->record->type))
    cannot(Reason::CallUnknown, wanted + " of a subclass of Tensor");
}

bool is_asked(Trace& trace, Value* seen) {
  if (!trace.scope().asks_classes()) return false;
  auto* tensor = as<Tensor>(seen);
  return tensor && asked_for(trace, tensor) != Asked::Nobody;
}

Value* call_by_name(Trace& trace, Value* seen, PyObject* name, std::initializer_list<Value*> args) {
  PyTypeObject* type = type_of(seen);
  PyObject* raw = name && seen->kind == Kind::Tensor ? trace.type_lookup(type, name) : nullptr;
  if (!raw) return nullptr;
  Value* result = trace.see(call(trace, bind(trace, raw, trace.type_attribute(type, name), seen, type), args));
  return result->kind == Kind::Constant && result->object == Py_NotImplemented ? nullptr : result;
}

bool is_hidden(Trace& trace, Tensor* tensor, PyObject* name) {
  for (const Attribute& attribute : tensor->attributes)
    if (attribute.name == name) return true;
  if (!tensor->existing()) return false;
  if (tensor->hides_nothing) return false;
  PyObject* found = nullptr;
  if (cpython::instance_attribute(tensor->object, name, &found) == cpython::Lookup::NeedsPython)
    cannot(Reason::AttributeUnknown, "an instance dict with keys of a user's class");
  if (found) return true;
  if (!tensor->dict_seen) trace.objects.note_dict_of(tensor->object);
  tensor->dict_seen = true;
  tensor->hides_nothing = guards::hides_nothing(tensor->object);
  if (tensor->hides_nothing)
    trace.facts.add({tensor->source, guards::Kind::HidesNothing, {}});
  else
    trace.facts.add_absent(trace.pool->child(tensor->source, source::Kind::Attr, name));
  return false;
}

namespace {

/// Cache of the last answer, for classes that the program has not written to; keyed by the first method.
struct Unreplaced {
  struct Entry {
    PyTypeObject* type = nullptr;
    PyObject* first = nullptr;
    size_t count = 0;
    bool operator==(const Entry&) const = default;
  };
  Entry entries[16];
};

}  // namespace

void refuse_replaced(Trace& trace, std::initializer_list<Value*> operands, std::initializer_list<PyObject*> methods) {
  auto& entries = trace.state<Unreplaced>().entries;
  PyObject* first = *methods.begin();
  auto& known = entries[reinterpret_cast<uintptr_t>(first) / 64 % std::size(entries)];
  for (Value* operand : operands) {
    auto* tensor = as<Tensor>(operand);
    if (!tensor) continue;
    const Unreplaced::Entry asked{tensor->record->type, first, methods.size()};
    if (known == asked && !trace.classes.any_written()) continue;
    known = asked;
    for (PyObject* name : methods) {
      auto own = torch().methods.find(name);
      if (own == torch().methods.end()) GRAMME_BUG("a special method of tensors that nobody noted");
      if (trace.type_lookup(tensor->record->type, name) != own->second)
        cannot(Reason::CallUnknown, "Tensor." + utf8_of(name) + ", which the program replaced");
    }
  }
}

namespace {

/// True if the dict is that of a module of PyTorch.
bool is_of_torch(PyObject* names) {
  static PyObject* const key = intern("__name__");
  PyObject* module = PyDict_GetItemWithError(names, key);
  const char* name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
  if (!name) PyErr_Clear();  // lone surrogates
  const std::string_view text = name ? name : "";
  return text == "torch" || text.starts_with("torch.");
}

void refuse_replacement(PyObject* found, PyObject* name) {
  if (PyFunction_Check(found) && !is_of_torch(PyFunction_GET_GLOBALS(found)))
    cannot(Reason::CallUnknown, utf8_of(name) + ", which the program replaced");
}

/// Guards the wanted name in a module's namespace and, a few levels deep, in its submodules (torch._C._nn).
void guard_names(Trace& trace, Namespace* names, PyObject* wanted, int depth) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wanted); ++i) {
    PyObject* name = PyTuple_GET_ITEM(wanted, i);
    PyObject* found = PyDict_GetItemWithError(names->object, name);
    const bool module = found && PyModule_CheckExact(found) && is_of_torch(PyModule_GetDict(found));
    if (!found || !(module || PyFunction_Check(found) || PyCFunction_Check(found))) continue;
    auto written = names->names.find(name);
    if (written != names->names.end() && written->second.written)
      cannot(Reason::CallUnknown, utf8_of(name) + ", which the program replaced");
    refuse_replacement(found, name);
    trace.facts.add(
        {trace.pool->child(names->source, source::Kind::Value, name), guards::Kind::Identity, share(found)});
    if (!module || depth == 0) continue;
    auto* inner = as<Module>(trace.pinned(found));
    guard_names(trace, static_cast<Namespace*>(inner->names), wanted, depth - 1);
  }
}

}  // namespace

void guard_lookups(Trace& trace, Function* function) {
  constexpr int kDepth = 3;
  if (function->called || !is_of_torch(PyFunction_GET_GLOBALS(function->object))) return;
  function->called = true;
  auto* real = cpython::as_function(function->object);
  PyObject* wanted = cpython::code_of(real)->co_names;
  const source::Source* source = trace.pool->child(function->source, source::Kind::Globals);
  guard_names(trace, trace.objects.namespace_of(real->func_globals, source), wanted, kDepth);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wanted); ++i) {
    PyObject* name = PyTuple_GET_ITEM(wanted, i);
    if (!cpython::type_lookup(torch().tensor, name)) continue;
    if (PyObject* found = trace.type_lookup(torch().tensor, name)) refuse_replacement(found, name);
  }
}

Value* item(Trace& trace, Tensor* tensor, const std::string& wanted) {
  static PyObject* const name = intern("item");
  refuse_torch_function(trace, tensor, wanted);
  if (trace.contract.as_is && trace::is_in_optimizer(trace.inliner))
    if (Value* number = trace.scope().content(tensor)) return number;
  if (!trace.data.scalars) cannot(Reason::DataDependentValue, wanted);
  Value* self = tensor;
  Value* made = trace.see(trace.emit_method(name, Args{&self, 1, nullptr, 0}));
  if (auto* number = as<Number>(made)) trace.scope().note_item(number, tensor);
  return made;
}

}  // namespace gramme::protocol
