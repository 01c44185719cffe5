// The core of rebuilding: registers of the replay program, reuse of values already made, and the simple kinds
// (constants, numbers, tensors, slices, methods). Other kinds have a file rebuild_*.cpp each.
#include "trace/rebuild.h"

#include <algorithm>

#include "base/imported.h"
#include "base/once.h"
#include "base/stack.h"
#include "base/type_dict.h"
#include "cpython/objects.h"
#include "torch/names.h"
#include "trace/bodies.h"
#include "trace/literals.h"
#include "value/views.h"

namespace gramme::trace {

using namespace value;
using plan::kKeep;
using plan::kNull;
using plan::Register;
using plan::ReplayKind;
using plan::ReplayOp;

namespace {
PyObject* builtin(const char* name) { return PyDict_GetItemString(PyEval_GetBuiltins(), name); }
}  // namespace

Rebuilder::Rebuilder(Trace& trace) : trace_(trace) {
  for (const effects::Effect& effect : trace.effects().entries())
    if (effect.kind == effects::Kind::Call) calls_.push_back(&effect);
}

Register Rebuilder::operator()(Value* value) {
  if (auto* lazy = as<Lazy>(value)) {
    if (lazy->target && !lazy->target->source) return (*this)(lazy->target);
    const bool varies = !trace_.contract.runs && PyLong_CheckExact(lazy->object);  // perhaps
    if (varies || trace_.facts.is_exempt(lazy->source)) return (*this)(trace_.see(lazy));
    return read(lazy->source);
  }
  if (value->kind == Kind::Null) return kNull;
  auto found = memo_.find(value);
  if (found != memo_.end()) return found->second;
  if (value->made_by >= 0) {
    replay_calls(static_cast<size_t>(value->made_by));
    return memo_.at(value);
  }
  if (!has_room(Room::Capture)) unsupported("objects nested too deeply");
  Register result = make(value);
  memo_[value] = result;
  return result;
}

int Rebuilder::read(const Source* source) {
  if (trace_.facts.is_exempt(source)) unsupported("a part of a class made in the segment");
  auto [at, added] = read_index_.try_emplace(source, static_cast<int>(reads_.size()));
  if (added) reads_.push_back(source);
  return at->second;
}

int Rebuilder::number(shape::Expr e) {
  auto [at, added] = number_index_.try_emplace(e, static_cast<int>(numbers_.size()));
  if (added) numbers_.push_back(e);
  return at->second;
}

Register Rebuilder::constant(PyObject* object) {
  auto [at, added] = constants_.try_emplace(object, 0);
  if (added) {
    at->second = kConstant * kSort + static_cast<Register>(replay_.constants.size());
    replay_.constants.push_back(share(object));
  }
  return at->second;
}

Register Rebuilder::output(graph::Node* node) {
  auto [at, added] = output_index_.try_emplace(node, static_cast<int>(outputs_.size()));
  if (added) outputs_.push_back(node);
  return kOutput * kSort + at->second;
}

ReplayOp& Rebuilder::op(ReplayKind kind) {
  replay_.ops.push_back({});
  replay_.ops.back().kind = kind;
  return replay_.ops.back();
}

Register Rebuilder::made(ReplayKind kind, PyObject* object) {
  Register result = fresh();
  ReplayOp& made = op(kind);
  made.dst = result;
  made.object = share(object);
  return result;
}

void Rebuilder::operands(ReplayOp& op, const std::vector<Register>& registers) {
  op.first = static_cast<int32_t>(replay_.operands.size());
  op.count = static_cast<int32_t>(registers.size());
  replay_.operands.insert(replay_.operands.end(), registers.begin(), registers.end());
}

void Rebuilder::with_operands(ReplayKind kind, Register target, const std::vector<Register>& registers) {
  ReplayOp& filled = op(kind);
  filled.a = target;
  operands(filled, registers);
}

std::vector<Register> Rebuilder::all(const std::vector<Value*>& values) {
  std::vector<Register> registers;
  registers.reserve(values.size());
  for (Value* value : values) registers.push_back((*this)(value));
  return registers;
}

std::vector<Register> Rebuilder::pairs(Table& table) {
  std::vector<Register> registers;
  table.each([&](Table::Entry& entry) {
    registers.push_back((*this)(entry.key));
    registers.push_back((*this)(entry.value));
  });
  return registers;
}

Register Rebuilder::call(PyObject* callable, const std::vector<Register>& registers) {
  Register result = fresh();
  ReplayOp& called = op(ReplayKind::CallConstant);
  called.dst = result;
  called.object = share(callable);
  operands(called, registers);
  return result;
}

/// Ends the segment before a tensor that would outlive its transform was made.
void Rebuilder::refuse_batched(const Tensor* tensor) {
  trace_.progress.stop_at(tensor->made_at - 1, Reason::ReplayUnsupported, "a tensor inside a transform, elsewhere");
}

Register Rebuilder::make(Value* value) {
  const bool computed = !trace_.contract.runs && value->kind == Kind::Number;
  if (value->source && !computed) {
    if (trace_.facts.is_exempt(value->source)) {  // only equal names and numbers are needed then
      auto* tuple = as<Tuple>(value);
      const bool known = value->kind == Kind::Constant || (tuple && tuple->type == &PyTuple_Type);
      const Owned<> equal = known ? trace_.concrete(value) : Owned<>();
      if (!equal) unsupported("a member of a class made in the segment");
      return constant(equal.get());
    }
    if (value->source->kind == source::Kind::Pinned) return constant(value->object);
    return read(value->source);
  }
  if (is_literal(value)) return constant(value->object);
  switch (value->kind) {
#define REBUILT make_new(static_cast<T*>(value))
#define NEVER never(value)
#define KIND(name, properties, answers, modelled, type, rebuilt, text) \
  case Kind::name: {                                                   \
    using T [[maybe_unused]] = value::name;                            \
    return rebuilt;                                                    \
  }
#include "value/kinds.def"
#undef KIND
#undef NEVER
#undef REBUILT
  }
  GRAMME_BUG("a value of no kind");
}

Register Rebuilder::never(Value* value) { unsupported(std::string("a ") + kind_name(value->kind)); }

Register Rebuilder::make_new(Constant* value) { return constant(value->object); }
Register Rebuilder::make_new(Builtin* value) { return constant(value->object); }
Register Rebuilder::make_new(Number* value) {
  if (!value->expr) return trace_.scope().is_data(value) ? of_data(value) : output(trace_.scope().node(value));
  const bool is_of_data = trace_.shapes.is_of_data(value->expr);
  if (is_of_data && value->type == &PyFloat_Type) return of_data(value);
  if (is_of_data || value->type == &PyFloat_Type || !trace_.contract.runs) return output(trace_.scope().node(value));
  return kNumber * kSort + number(value->expr);
}

/// A data-dependent number. Compiled graphs return no floats, so a tensor is returned and its item is taken.
Register Rebuilder::of_data(Number* number) {
  if (number->type != &PyFloat_Type) return output(trace_.scope().node(number));
  PyTypeObject* const tensor = once([] { return imported_type("torch", "Tensor"); });
  return call_method(tensor, "item", {output(trace_.scope().as_tensor(number)->node)});
}

/// Gives a graph output its subclass in replay, unless a node of the graph has done so. The tensor it was made of may
/// be another object of the program.
Register Rebuilder::make_classed(Tensor* tensor) {
  PyObject* const as_subclass = once([] {
    return share(cpython::type_lookup(of_torch::type(of_torch::TensorBase), intern("as_subclass"))).release();
  });
  PyObject* const make_subclass = of_torch::object(of_torch::TensorBaseMakeSubclass);
  const Register type = constant(reinterpret_cast<PyObject*>(tensor->record->type));
  Register result = tensor->classed          ? output(tensor->classed)
                    : tensor->differentiable ? call(as_subclass, {(*this)(tensor->plain), type})
                                             : call(make_subclass, {type, (*this)(tensor->plain)});
  memo_[tensor] = result;
  store_attributes(result, tensor->attributes);
  return result;
}

Register Rebuilder::make_new(Tensor* tensor) {
  if (tensor->plain) return make_classed(tensor);
  if (tensor->record->inner) refuse_batched(tensor);
  const bool is_leaf = tensor->record->requires_grad && tensor->record->is_leaf &&
                       trace_.scope().writes().late(tensor) != effects::Late::Closed;
  const bool as_eager = tensor->differentiable && trace_.contract.as_is;  // a view made with grad mode off
  if (is_leaf && !as_eager && trace_.contract.runs) new_leaf(tensor);
  trace_.scope().leaves(tensor);
  Register result = output(trace_.scope().node(tensor));
  auto& read = trace_.scope().state<ReadByHooks>();
  if (!read.made.empty() && read.made.contains(storage_root(tensor))) read.outputs.push_back(tensor->node);
  memo_[tensor] = result;
  store_attributes(result, tensor->attributes);
  return result;
}

Register Rebuilder::make_new(Slice* slice) {
  Register start = (*this)(slice->start), stop = (*this)(slice->stop), step = (*this)(slice->step);
  return call(reinterpret_cast<PyObject*>(&PySlice_Type), {start, stop, step});
}

Register Rebuilder::make_new(Cell* cell) {
  Register result = made(ReplayKind::MakeCell);
  memo_[cell] = result;
  fill_cell(cell);
  return result;
}

Register Rebuilder::make_new(Method* method) {
  Register function = (*this)(method->function), self = (*this)(method->self);
  if (auto* known = remembered(method)) return *known;
  Register result = made(ReplayKind::MakeMethod);
  replay_.ops.back().a = function;
  replay_.ops.back().b = self;
  return result;
}

Register Rebuilder::make_new(View* view) {
  if (view->dict->kind != Kind::Dict) unsupported("a view of an instance's attributes");
  const char* name = view->which == View::Keys ? "keys" : view->which == View::Values ? "values" : "items";
  return call(PyDict_GetItemString(type_dict(&PyDict_Type), name), {(*this)(view->dict)});
}

Register Rebuilder::make_new(InstanceDict* dict) { return call(builtin("vars"), {(*this)(dict->owner)}); }

/// Makes a leaf by the real operation in replay, because outputs of compiled graphs may have a history.
void Rebuilder::new_leaf(Tensor* tensor) {
  trace_.progress.stop_at(tensor->made_at, Reason::ReplayUnsupported, "a leaf made by an operation");
}

void Rebuilder::number_registers(plan::Exit& exit) {
  int reads = static_cast<int>(reads_.size() + numbers_.size()), outputs = static_cast<int>(outputs_.size());
  int constants = static_cast<int>(replay_.constants.size());
  replay_.constant_base = reads + outputs;
  replay_.registers = reads + outputs + constants + made_;
  auto number = [&](Register& r) {
    if (r < 0) return;
    int base[] = {0, reads, reads + outputs, reads + outputs + constants, static_cast<int>(reads_.size())};
    r = base[r / kSort] + r % kSort;
  };
  for (ReplayOp& op : replay_.ops) {
    if (const char* missing = plan::what_is_missing(op, replay_.operands))
      GRAMME_BUG(std::string(plan::kind_name(op.kind)) + " lacks " + missing);
    number(op.dst);
    number(op.a);
    number(op.b);
    number(op.c);
  }
  for (Register& r : replay_.operands) number(r);
  number(exit.result);
  for (plan::SlotWrite& write : exit.locals) number(write.value);
  for (Register& r : exit.stack) number(r);
  for (plan::PushedFrame& frame : exit.pushed) {
    number(frame.function);
    for (Register& r : frame.values) number(r);
  }
  number(exit.exception);
}

}  // namespace gramme::trace
