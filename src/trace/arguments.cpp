// Turns values into the arguments of a graph's calls: nodes, constants, containers, and the numbers that must be
// specialised.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "aten/classes.h"
#include "base/imported.h"
#include "base/once.h"
#include "cpython/objects.h"
#include "meta/numbers.h"
#include "meta/origin.h"
#include "meta/wrapped.h"
#include "source/constant.h"
#include "source/leaf_types.h"
#include "torch/calls.h"
#include "torch/names.h"
#include "trace/bodies.h"
#include "trace/made_instance.h"
#include "trace/scope.h"
#include "value/traits.h"

namespace gramme::trace {

using namespace value;
using meta::Argument;

namespace {

/// The description of the tensor that the graph sees: a plain tensor, unless the class wraps other tensors.
const meta::Record* plain_record(const meta::Record* record) {
  PyTypeObject* const type = once([] { return imported_type("torch", "Tensor"); });
  if (aten::is_exact_tensor_type(record->type) || meta::is_wrapper(record->type)) return record;
  return meta::with_type(record, type);
}

}  // namespace

graph::Node* Scope::node(Tensor* tensor) {
  if (tensor->plain) return node(tensor->plain);
  if (!tensor->node) {
    if (!tensor->existing()) GRAMME_BUG("a tensor without a node or a source");
    tensor->node = inputs_.add(tensor->source, plain_record(tensor->record), tensor->object, capture_.position());
  }
  if (!graph_->is_in(tensor->node->graph)) tensor->node = take_out(tensor->node);
  if (graph_ != tensor->node->graph && capture_.contract.differentiates && aten::grad_enabled())
    state<TakenByBodies>().tensors.push_back({tensor, graph_, capture_.steps()});
  return here(tensor->node);
}

namespace {

bool is_negative_zero(double value) { return value == 0 && std::signbit(value); }

/// True if the constant's repr in generated Python evaluates to the constant itself; false for (-0+1j), infj, code.
bool prints_as_itself(PyObject* constant) {
  if (PyCode_Check(constant)) return false;
  if (PyLong_CheckExact(constant)) return _PyLong_NumBits(constant) <= 1024;
  if (!PyComplex_CheckExact(constant)) return true;
  const Py_complex value = PyComplex_AsCComplex(constant);
  return std::isfinite(value.real) && std::isfinite(value.imag) && !is_negative_zero(value.real) &&
         !is_negative_zero(value.imag);
}

/// True if the call passes a dtype on to an operator that also accepts Python's numeric types.
bool takes_types(const meta::Call& call) {
  return call.kind == meta::Call::Method || PyCFunction_Check(call.target) ||
         (PyFunction_Check(call.target) && !meta::is_of_program(call));
}

/// The dtype that PyTorch reads a Python numeric type as.
Owned<> dtype_of(PyObject* type) {
  static constexpr std::pair<PyTypeObject*, const char*> kNames[] = {
      {&PyBool_Type, "bool"}, {&PyLong_Type, "int64"}, {&PyFloat_Type, "float64"}, {&PyComplex_Type, "complex128"}};
  for (auto [known, name] : kNames)
    if (type == reinterpret_cast<PyObject*>(known)) return imported("torch", name);
  return {};
}

bool is_numpy(Value* seen, const char* type) {
  return seen->kind == Kind::Object && seen->object && source::is_scalar(seen->object) &&
         std::strcmp(Py_TYPE(seen->object)->tp_name, type) == 0;
}

/// True if the call infers its tensor's dtype from the data given. A NumPy float64 does not count as a float there.
bool takes_data(const meta::Call& call) {
  const std::string name = meta::name_of(call);
  return name.empty() || of_torch::is_call(name, of_torch::ReadsData);
}

/// True if the call accepts NumPy ints as ints: functions in C do. One in Python may look at the type, and operators of
/// torch.ops do not accept one in place of a list.
bool takes_numpy_ints(const meta::Call& call) {
  if (call.kind != meta::Call::Method) return PyCFunction_Check(call.target) && !meta::is_of_program(call);
  PyTypeObject* const type =
      call.args->kind == Argument::Tensor ? call.args->record->type : of_torch::type(of_torch::TensorBase);
  PyObject* method = cpython::type_lookup(type, call.target);
  return method && !PyFunction_Check(method);
}

bool is_type(const Argument& argument) { return argument.kind == Argument::Constant && PyType_Check(argument.object); }

[[noreturn]] void refuse_type() { cannot(Reason::ArgumentKind, "a class as argument of a tensor operation"); }

Argument sequence(Scope& scope, Arena& arena, Argument::Kind kind, const std::vector<Value*>& items) {
  auto* arguments = static_cast<Argument*>(arena.bytes_for(sizeof(Argument) * (items.size() + 1)));
  for (size_t i = 0; i < items.size(); ++i)
    if (is_type(*new (arguments + i) Argument(scope.argument(items[i])))) refuse_type();
  Argument result;
  result.kind = kind;
  result.items = arguments;
  result.count = static_cast<uint32_t>(items.size());
  return result;
}

[[noreturn]] void refuse_kind(Value* value) {
  cannot(Reason::ArgumentKind, std::string("a ") + kind_name(value->kind) + " as argument of a tensor operation");
}

/// True for a float from outside the body of an operator that takes no floats as operands. Inside, it is a constant.
bool refuses_float(Scope& scope, const Number* number, bool is_inside) {
  const bool outside = number->type == &PyFloat_Type && !number->function && !number->expr && !is_inside;
  return outside && scope.state<FloatlessBodies>().depth > 0;
}

bool is_true(const Owned<>& answer) { return answer.get() == Py_True; }

/// The real object for one that the program made of constants; null if it holds anything else.
PyObject* made_object(Capture& capture, Object* object) {
  if (object->payload) return nullptr;
  const auto real = [&](const Attribute& each) { return capture.concrete(each.value); };
  Owned<> made = made_instance(object->type, capture.all_attributes(object), real);
  return made ? capture.keep(std::move(made)) : nullptr;
}

/// An object of a class registered as opaque, for which the exporter chooses the graph's stand-in; null for others.
PyObject* opaque_object(Capture& capture, Object* object) {
  const Owned<> is_opaque = imported("gramme._export._objects", "is_opaque");
  PyObject* type = reinterpret_cast<PyObject*>(object->type);
  if (!is_true(take(PyObject_CallOneArg(is_opaque.get(), type)))) return nullptr;
  if (!object->existing()) return made_object(capture, object);
  capture.facts.add({object->source, guards::Kind::Identity, share(object->object)});
  return object->object;
}

/// Objects of the program that are arguments of operators: of each graph, the nodes that read them.
struct HeldObjects : std::map<std::pair<const graph::Graph*, PyObject*>, Argument> {};

bool is_mesh(const Object* object) {
  return object->existing() && PyType_IsSubtype(Py_TYPE(object->object), of_torch::type(of_torch::DeviceMesh));
}

}  // namespace

Argument Scope::passed(Tensor* tensor) {
  if (writes_.late(tensor) == effects::Late::Closed) cannot(Reason::LateEffect, "an operation on a tensor");
  Argument result;
  result.kind = Argument::Tensor;
  result.node = node(tensor);
  result.record = tensor->record = capture_.shapes.simplified(tensor->record);
  if (has_classes_) {
    result.record = plain_record(result.record);
    if (!building_.opens && !result.record->context && meta::is_wrapper(result.record->type))
      cannot(Reason::TensorSubclass, std::string(result.record->type->tp_name) + " has a __torch_dispatch__");
  }
  building_.leaves.push_back(tensor);
  return result;
}

Argument Scope::passed(Number* number) {
  Argument result;
  if (refuses_float(*this, number, number->node && is_of_graph(number->node))) {
    result.object = specialize(number);
    if (!result.object) cannot(Reason::BodyUnsupported, "a float that data decides, from outside of the function");
    return result;
  }
  result.object = number->object;
  if (number->expr) {
    result.expr = capture_.shapes.assumptions.simplified(number->expr);
    if (is_constant(result.expr)) {
      result.expr = nullptr;
      result.object = specialize(number);
      return result;
    }
  }
  result.kind = Argument::Number;
  result.node = node(number);
  result.range = number->range;
  building_.numbers.push_back(number);
  return result;
}

Argument Scope::passed(Tuple* tuple) {
  Argument result = sequence(*this, capture_.arena, Argument::Tuple, tuple->items);
  if (tuple->type != &PyTuple_Type) result.object = reinterpret_cast<PyObject*>(tuple->type);
  return result;
}

Argument Scope::passed(List* list) { return sequence(*this, capture_.arena, Argument::List, list->items()); }

Argument Scope::passed(Dict* dict) {
  capture_.load(dict);
  std::vector<Value*> items;
  dict->entries.each([&](Table::Entry& entry) {
    items.push_back(entry.key);
    items.push_back(entry.value);
  });
  return sequence(*this, capture_.arena, Argument::Dict, items);
}

Argument Scope::passed(Slice* slice) {
  return sequence(*this, capture_.arena, Argument::Slice, {slice->start, slice->stop, slice->step});
}

Argument Scope::passed(Constant* constant) {
  if (!prints_as_itself(constant->object))
    cannot(Reason::ArgumentKind, "a constant that graphs cannot write as argument of a tensor operation");
  Argument result;
  result.object = constant->object;
  return result;
}

Argument Scope::passed(Class* seen) {
  if (!seen->existing()) refuse_type();
  Argument result;
  result.object = seen->object;
  return result;
}

/// Passes a member of an IntEnum or StrEnum as the int or str it is. Operators of torch.ops may take other objects.
Argument Scope::passed(Object* object) {
  PyTypeObject* const op = of_torch::type(of_torch::OpOverload);
  if (object->existing() && object->type == op) {
    capture_.facts.add({object->source, guards::Kind::Identity, share(object->object)});
    Argument result;
    result.object = object->object;
    return result;
  }
  if (is_mesh(object)) {
    capture_.facts.add({object->source, guards::Kind::Identity, share(object->object)});
    const auto [known, is_new] = state<HeldObjects>().try_emplace({graph_, object->object});
    if (is_new) known->second = attribute("device_mesh", object->object);
    return known->second;
  }
  if (is_numpy(object, "numpy.int64")) {
    building_.numpy_ints = true;
    return argument(capture_.python_number(object));
  }
  if (PyObject* opaque = capture_.contract.runs ? nullptr : opaque_object(capture_, object)) {
    if (graph_ != &root_) cannot(Reason::BodyUnsupported, "an opaque object in a body");
    return meta::constant(opaque);
  }
  if (object->existing() && source::is_leaf(object->object) && !source::is_scalar(object->object))
    return meta::constant(object->object);
  if (!object->payload || object->payload->kind != Kind::Constant) refuse_kind(object);
  return argument(object->payload);
}

Argument Scope::argument(Value* value) {
  Capture::Deeper deeper(capture_);
  value = capture_.see(value);
  if (!has(value->kind, PASSED)) refuse_kind(value);
  return as_kind<PASSED>(value, [&](auto* seen) { return passed(seen); });
}

/// Fills in the arguments of a call, allocated in the arena.
void Scope::fill(meta::Call& call, const Args& args) {
  building_.clear();
  auto* all =
      static_cast<Argument*>(capture_.arena.bytes_for(sizeof(Argument) * (args.positional + args.keywords + 1)));
  for (size_t i = 0; i < args.positional + args.keywords; ++i) {
    Value* value = capture_.see(args.values[i]);
    if (is_numpy(value, "numpy.float64") && takes_types(call) && !takes_data(call))
      value = capture_.python_number(value);
    if (!is_type(*new (all + i) Argument(argument(value)))) continue;
    Owned<> dtype = takes_types(call) ? dtype_of(all[i].object) : Owned<>();
    if (!dtype) refuse_type();
    all[i].object = capture_.keep(std::move(dtype));
  }
  call.args = all;
  call.arg_count = static_cast<uint32_t>(args.positional);
  call.keyword_args = all + args.positional;
  call.keyword_count = static_cast<uint32_t>(args.keywords);
  auto** names = static_cast<PyObject**>(capture_.arena.bytes_for(sizeof(PyObject*) * (args.keywords + 1)));
  for (size_t i = 0; i < args.keywords; ++i) names[i] = capture_.keep(share(args.names[i]));
  call.keyword_names = names;
  if (building_.numpy_ints && !takes_numpy_ints(call))
    cannot(Reason::ArgumentKind, "an int of NumPy to a function in Python");
}

namespace {

/// A data-dependent float that does not fit a dtype makes the call raise, and the node too where graphs run as they
/// are. Such floats are set to the interval [0, 0] for the inference if the call needs nothing else of them; returns
/// their former intervals.
std::vector<std::pair<Argument*, meta::Interval>> taken_to_fit(const Capture& capture, const Scope& scope,
                                                               const meta::Call& call,
                                                               const std::vector<Number*>& numbers) {
  std::vector<std::pair<Argument*, meta::Interval>> taken;
  if (!capture.contract.as_is || !capture.data.scalars) return taken;
  size_t at = 0;
  meta::each_number(call, [&](const Argument& leaf, bool depends) {
    const Number* number = numbers.at(at++);
    const bool is_float = number->kind == Kind::Number && number->type == &PyFloat_Type;
    if (!depends || !is_float || !scope.is_data(number)) return;
    auto* of_data = const_cast<Argument*>(&leaf);
    taken.emplace_back(of_data, std::exchange(of_data->range, {0, 0}));
  });
  return taken;
}

/// Ends the segment at alpha= beside a data-dependent float: PyTorch's compilers drop the alpha there.
void refuse_scaled(const Capture& capture, const Scope& scope, const meta::Call& call,
                   const std::vector<Number*>& numbers) {
  static PyObject* const alpha = intern("alpha");
  PyObject* const* const end = call.keyword_names + call.keyword_count;
  if (capture.contract.as_is || std::find(call.keyword_names, end, alpha) == end) return;
  size_t at = 0;
  for (uint32_t i = 0; i < call.arg_count; ++i)
    meta::each_leaf(call.args[i], [&](const Argument& leaf) {
      if (leaf.kind == Argument::Number && scope.is_data(numbers.at(at++)))
        cannot(Reason::UnbackedNumber, "a number that alpha= multiplies");
    });
}

}  // namespace

/// Makes the numbers that the call's Outcome depends on constants, or passes them as expressions.
void Scope::specialize_needed(meta::Call& call, const Args& args) {
  std::vector<Number*> numbers = building_.numbers;
  size_t at = 0;
  bool needed = false;
  const auto taken = taken_to_fit(capture_, *this, call, numbers);
  if (!taken.empty()) expect_raise();
  refuse_scaled(capture_, *this, call, numbers);
  meta::each_number(call, [&](const Argument& leaf, bool depends) {
    Number* number = numbers.at(at++);
    if (!depends) const_cast<Argument&>(leaf).expr = nullptr;  // one outcome for all numbers of the type
    if (!depends || leaf.expr) return;
    if (number->kind == Kind::Number && !specialize(number))
      cannot(capture_.data.scalars ? Reason::UnbackedNumber : Reason::DataDependentValue,
             "a number computed from a tensor");
    needed = true;
  });
  for (const auto& [leaf, range] : taken) leaf->range = range;
  if (needed) fill(call, args);
}

/// Makes all sizes in the call constants.
void Scope::fix_sizes(meta::Call& call, const Args& args) {
  auto fix = [&](shape::SymInt number) { return shape::SymInt(capture_.fixed(number)); };
  meta::each_leaf(call, [&](const Argument& leaf) {
    if (leaf.kind == Argument::Tensor) meta::mapped(leaf.record, fix);
    if (leaf.expr) capture_.shapes.fix(leaf.expr, capture_.position());
  });
  fill(call, args);
  if (!building_.numbers.empty()) specialize_needed(call, args);
}

bool Scope::is_symbolic(const meta::Call& call) {
  bool symbolic = false;
  meta::each_leaf(call, [&](const Argument& leaf) {
    symbolic |= leaf.expr || (leaf.kind == Argument::Tensor && leaf.record->symbolic);
  });
  return symbolic;
}

}  // namespace gramme::trace
