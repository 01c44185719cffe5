// Values as arguments of calls in the graph.
#include <cmath>

#include "base/imported.h"
#include "meta/numbers.h"
#include "trace/scope.h"

namespace gramme::trace {

using namespace value;
using meta::Argument;

graph::Node* Scope::node(Tensor* tensor) {
  if (!tensor->node) {
    if (!tensor->existing()) GRAMME_BUG("a tensor without a node or a source");
    tensor->node = graph_.placeholder(tensor->source, tensor->record, capture_.position());
    inputs_[tensor->node] = tensor->object;
  }
  return tensor->node;
}

namespace {

bool is_negative_zero(double value) { return value == 0 && std::signbit(value); }

/// What a graph's Python would have for the constant is the constant: not for (-0+1j), infj, code.
bool prints_as_itself(PyObject* constant) {
  if (PyCode_Check(constant)) return false;
  if (PyLong_CheckExact(constant)) return _PyLong_NumBits(constant) <= 1024;
  if (!PyComplex_CheckExact(constant)) return true;
  const Py_complex value = PyComplex_AsCComplex(constant);
  return std::isfinite(value.real) && std::isfinite(value.imag) && !is_negative_zero(value.real) &&
         !is_negative_zero(value.imag);
}

/// Does the call hand a dtype on to an operator, which takes Python's numeric types for it?
bool takes_types(const meta::Call& call) {
  return call.kind == meta::Call::Method || PyCFunction_Check(call.target) ||
         (PyFunction_Check(call.target) && !is_of_program(call));
}

/// The dtype for which PyTorch takes the type.
Owned<> dtype_of(PyObject* type) {
  static constexpr std::pair<PyTypeObject*, const char*> kNames[] = {
      {&PyBool_Type, "bool"}, {&PyLong_Type, "int64"}, {&PyFloat_Type, "float64"}, {&PyComplex_Type, "complex128"}};
  for (auto [known, name] : kNames)
    if (type == reinterpret_cast<PyObject*>(known)) return imported("torch", name);
  return {};
}

bool is_type(const Argument& argument) { return argument.kind == Argument::Constant && PyType_Check(argument.object); }

[[noreturn]] void refuse_type() { cannot(Reason::ArgumentKind, "a class as argument of a tensor operation"); }

const Argument* sequence(Scope& scope, Arena& arena, Argument& result, const std::vector<Value*>& items) {
  auto* arguments = static_cast<Argument*>(arena.bytes_for(sizeof(Argument) * (items.size() + 1)));
  for (size_t i = 0; i < items.size(); ++i)
    if (is_type(*new (arguments + i) Argument(scope.argument(items[i])))) refuse_type();
  result.items = arguments;
  result.count = static_cast<uint32_t>(items.size());
  return arguments;
}

Argument dict_argument(Scope& scope, Arena& arena, Dict* dict) {
  std::vector<Value*> items;
  dict->entries.each([&](Table::Entry& entry) {
    items.push_back(entry.key);
    items.push_back(entry.value);
  });
  Argument result;
  result.kind = Argument::Dict;
  sequence(scope, arena, result, items);
  return result;
}

}  // namespace

Argument Scope::argument(Value* value) {
  Capture::Deeper deeper(capture_);
  value = capture_.see(value);
  Argument result;
  switch (value->kind) {
    case Kind::Tensor: {
      auto* tensor = static_cast<Tensor*>(value);
      if (tensor->late == Tensor::Closed) cannot(Reason::LateEffect, "an operation on a tensor");
      result.kind = Argument::Tensor;
      result.node = node(tensor);
      result.record = tensor->record;
      leaves_.push_back(tensor);
      return result;
    }
    case Kind::Number: {
      auto* number = static_cast<Number*>(value);
      result.kind = Argument::Number;
      result.node = node(number);
      result.object = number->object;
      result.bound = number->bound;
      numbers_.push_back(number);
      return result;
    }
    case Kind::Tuple: {
      auto* tuple = static_cast<Tuple*>(value);
      result.kind = Argument::Tuple;
      if (tuple->type != &PyTuple_Type) result.object = reinterpret_cast<PyObject*>(tuple->type);
      sequence(*this, capture_.arena, result, tuple->items);
      return result;
    }
    case Kind::List:
      result.kind = Argument::List;
      sequence(*this, capture_.arena, result, static_cast<List*>(value)->items());
      return result;
    case Kind::Dict:
      capture_.load(static_cast<Dict*>(value));
      return dict_argument(*this, capture_.arena, static_cast<Dict*>(value));
    case Kind::Slice: {
      auto* slice = static_cast<Slice*>(value);
      result.kind = Argument::Slice;
      sequence(*this, capture_.arena, result, {slice->start, slice->stop, slice->step});
      return result;
    }
    case Kind::Constant:
      if (!prints_as_itself(value->object))
        cannot(Reason::ArgumentKind, "a constant that graphs cannot write as argument of a tensor operation");
      result.object = value->object;
      return result;
    case Kind::Class:
      if (!value->existing()) refuse_type();
      result.object = value->object;
      return result;
    case Kind::Object:
      if (auto* object = as<Object>(value); object && object->payload && object->payload->kind == Kind::Constant)
        return argument(object->payload);  // a member of an IntEnum or StrEnum
      [[fallthrough]];
    case Kind::Lazy:
    case Kind::Builtin:
    case Kind::Function:
    case Kind::Set:
    case Kind::Deque:
    case Kind::View:
    case Kind::Iterator:
    case Kind::Generator:
    case Kind::Cell:
    case Kind::Method:
    case Kind::BuiltinMethod:
    case Kind::Module:
    case Kind::Namespace:
    case Kind::InstanceDict:
    case Kind::Partial:
    case Kind::Super:
    case Kind::Null:
      cannot(Reason::ArgumentKind, std::string("a ") + kind_name(value->kind) + " as argument of a tensor operation");
  }
  GRAMME_BUG("a value of no kind");
}

/// The arguments of a call in the arena.
void Scope::fill(meta::Call& call, const Args& args) {
  leaves_.clear();
  numbers_.clear();
  auto* all =
      static_cast<Argument*>(capture_.arena.bytes_for(sizeof(Argument) * (args.positional + args.keywords + 1)));
  for (size_t i = 0; i < args.positional + args.keywords; ++i) {
    if (!is_type(*new (all + i) Argument(argument(args.values[i])))) continue;
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
}

/// The numbers on which the call's Outcome depends become constants.
void Scope::specialize_needed(meta::Call& call, const Args& args) {
  std::vector<Number*> numbers = numbers_;
  size_t at = 0;
  bool needed = false;
  meta::each_number(call, [&](const Argument&, bool depends) {
    Number* number = numbers.at(at++);
    if (!depends) return;
    if (number->kind == Kind::Number && !specialize(number))
      cannot(Reason::DataDependentValue, "a number computed from a tensor");
    needed = true;
  });
  if (needed) fill(call, args);
}

}  // namespace gramme::trace
