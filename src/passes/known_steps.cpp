// Steps that a recording recognises by their target instead of their operators: arithmetic on numbers, mode changes,
// items of earlier results, literals.

#include <algorithm>
#include <limits>
#include <span>

#include "aten/python.h"
#include "passes/assemble.h"
#include "passes/recording.h"
#include "tape/modes.h"

namespace gramme::native {

/// Arithmetic on numbers, or a tensor's size, which the tape computes.
bool Recording::add_number(size_t index) {
  if (!recorder_.any_sizes()) return false;
  const Step& step = program_->steps[index];
  Numbers& numbers = recorder_.numbers();
  PyObject* result = stepper_.value(program_->result(index));
  const shape::Expr value = Numbers::constant_of(result);
  if (!value) return false;
  if (is_size_call(step) && place(step.arguments[0].value).kind == Place::Tensor) {
    Computation size;
    size.of = place(step.arguments[0].value).index;
    size.dimension = PyLong_AsLongLong(step.arguments[1].object.get());
    size.size = numbers.symbol(PyLong_AsLongLong(result), true);
    place(program_->result(index)) = {Place::Number, size.size, {}, {}};
    bind_computation(append(index), std::move(size));
    return true;
  }
  const std::optional<Arithmetic> arithmetic = arithmetic_of(step);
  if (!arithmetic) return false;
  const bool two = step.arguments.size() > 1;
  const shape::Expr a = number_at(step.arguments[0]), b = two ? number_at(step.arguments[1]) : nullptr;
  const shape::Expr made = a && (b || !two) ? arithmetic->make(a, b) : nullptr;
  if (!made || made->type != value->type) return false;
  // If a number has no value, the call runs step by step, or raises. A float may lack one where Python would not raise,
  // so it must be computable at the start.
  if (made->type == shape::Type::Float && waits_for_data(step)) return false;
  Computation computation;
  if (arithmetic->divides) {
    const shape::Expr zero = b->type == shape::Type::Float ? shape::float_constant(0) : shape::constant(0);
    const shape::Expr divides = shape::not_equal(b, zero);
    if (!divides) return false;
    numbers.require(divides, computation.code);
    computation.step = &step;
    each_value(step, [&](ValueId operand) { computation.operands.emplace_back(operand, place(operand)); });
  }
  const NumberId number = numbers.add(made, value->constant, computation.code);
  place(program_->result(index)) = {made->type == shape::Type::Float ? Place::Float : Place::Number, number, {}, {}};
  if (!computation.code.empty()) bind_computation(append(index), std::move(computation));
  return true;
}

/// The operand as an expression; null if it is no number.
shape::Expr Recording::number_at(const Operand& operand) const {
  if (operand.kind == Operand::Value && is_number(place(operand.value)))
    return recorder_.numbers().at(place(operand.value).index);
  return operand.kind == Operand::Constant ? Numbers::constant_of(operand.object.get()) : nullptr;
}

/// True if a number among the arguments depends on a tensor's size.
bool Recording::waits_for_data(const Step& step) const {
  bool waits = false;
  each_value(step, [&](ValueId value) {
    each_number(place(value), [&](NumberId number) { waits |= recorder_.numbers().waits(number); });
  });
  return waits;
}

bool Recording::add_mode(size_t index, PyObject* result) {
  std::optional<ModeCall> call = mode_call(program_->steps[index], result);
  if (!call) return false;
  if (call->entered >= 0) {
    auto slot = slots_.find(call->entered);
    if (slot == slots_.end()) return false;
    call->slot = slot->second;
  } else if (call->kind != ModeCall::SetGrad) {
    call->slot = slots_[program_->result(index)] = modes_++;
  }
  const bool autocast = call->kind == ModeCall::EnterAutocast || call->kind == ModeCall::ExitAutocast;
  below_autograd_ &= (casts_ && autocast) || (call->kind == ModeCall::SetGrad && !call->on);
  met_autocast_ |= autocast;
  place(program_->result(index)) = {Place::Constant, 0, share(result), {}};
  if (casts_ && autocast) return true;  // the tape has the casts
  bind_mode(append(index), *call);
  if (call->kind == ModeCall::SetGrad) {
    Instruction& flat = flat_.emplace_back();
    flat.step = static_cast<uint32_t>(index);
    bind_mode(flat, *call);
  }
  return true;
}

/// An item of an earlier step's result, which has a place already.
bool Recording::add_element(size_t index) {
  const Step& step = program_->steps[index];
  if (!is_getitem(step) || step.arguments[0].kind != Operand::Value) return false;
  const Place& whole = place(step.arguments[0].value);
  PyObject* key = step.arguments[1].object.get();
  if (whole.kind != Place::Sequence || step.arguments[1].kind != Operand::Constant || !PyLong_CheckExact(key))
    return false;
  const auto count = static_cast<Py_ssize_t>(whole.items.size());
  Py_ssize_t at = PyLong_AsSsize_t(key);
  if (at < 0) at += count;
  if (at < 0 || at >= count) return false;
  Place element = whole.items[static_cast<size_t>(at)];
  place(program_->result(index)) = std::move(element);
  return true;
}

/// A tensor made of Python numbers: each call copies it.
bool Recording::add_literal(size_t index, PyObject* result) {
  const Step& step = program_->steps[index];
  if (!makes_literal(step) || !is_fixed(step) || !aten::is_exact_tensor(result) ||
      aten::tensor_of(result).requires_grad())
    return false;
  // no Python: the dispatcher's table
  static const c10::OperatorHandle* const clone =
      new c10::OperatorHandle(c10::Dispatcher::singleton().findSchemaOrThrow("aten::clone", ""));
  const at::Tensor& tensor = aten::tensor_of(result);
  const Register original = recorder_.constant(tensor.clone()), copy = recorder_.add(tensor);
  recorder_.forget();  // forgets the copy made here
  place(program_->result(index)) = {Place::Tensor, copy, {}, {}};
  append(index).call = std::make_unique<OperatorCall>(
      OperatorCall{*clone,
                   {{OperatorArgument::Tensor, {}, {original}}, {OperatorArgument::Constant, {}, {}}},
                   {{OperatorResult::Tensor, {copy}}}});
  flatten(index, *instructions_.back().call);
  return true;
}

/// The operand as a number; `if_none` replaces None.
std::optional<Amount> Recording::amount_at(const Operand& operand, int64_t if_none) const {
  if (operand.kind == Operand::Value && place(operand.value).kind == Place::Number)
    return Amount{place(operand.value).index};
  if (operand.kind != Operand::Constant) return std::nullopt;
  if (operand.object.get() == Py_None) return Amount{-1, if_none};
  if (!Numbers::fits(operand.object.get())) return std::nullopt;
  return Amount{-1, PyLong_AsLongLong(operand.object.get())};
}

std::optional<IndexItem> Recording::index_item(const Operand& operand) const {
  constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max(), kLargestStep = 1 << 20;
  PyObject* object = operand.kind == Operand::Constant ? operand.object.get() : nullptr;
  if (object == Py_None) return IndexItem{IndexItem::None};
  if (object == Py_Ellipsis) return IndexItem{IndexItem::Ellipsis};
  if (operand.kind != Operand::Slice) {
    const std::optional<Amount> at = amount_at(operand, 0);
    return at ? std::optional(IndexItem{IndexItem::Integer, *at}) : std::nullopt;
  }
  const std::optional<Amount> start = amount_at(operand.items[0], 0), stop = amount_at(operand.items[1], kToTheEnd),
                              step = amount_at(operand.items[2], 1);
  if (!start || !stop || !step || step->number >= 0 || step->constant < 1 || step->constant > kLargestStep)
    return std::nullopt;
  return IndexItem{IndexItem::Slice, *start, *stop, step->constant};
}

/// x[1, ..., :n, None] with varying sizes or numbers: a view for all sizes.
bool Recording::add_index(size_t index, PyObject* result) {
  const Step& step = program_->steps[index];
  if (!is_getitem(step) || is_steady(step) || step.arguments[0].kind != Operand::Value) return false;
  const Place& source = place(step.arguments[0].value);
  if (source.kind != Place::Tensor || !aten::is_tensor(result) || has_odd_tensor(result) ||
      has_odd_tensor(stepper_.value(step.arguments[0].value)))
    return false;
  const Operand& key = step.arguments[1];
  ViewStep view{ViewStep::Index};
  bool ellipsis = false;
  for (const Operand& operand : key.kind == Operand::Tuple ? std::span(key.items) : std::span(&key, 1)) {
    const std::optional<IndexItem> item = index_item(operand);
    if (!item || (ellipsis && item->kind == IndexItem::Ellipsis)) return false;
    ellipsis |= item->kind == IndexItem::Ellipsis;
    view.items.push_back(*item);
  }
  const Register from = source.index, to = recorder_.add(aten::tensor_of(result), true);
  place(program_->result(index)) = {Place::Tensor, to, {}, {}};
  bind_index(append(index), from, to, std::move(view));
  return true;
}

/// True for x[i, j] with integer tensors: one operator for all sizes.
bool Recording::indexes_by_tensors(const Step& step, const std::vector<Observed>& observed) const {
  if (!is_getitem(step) || observed.size() != 1 || observed[0].call.op.operator_name().name != "aten::index")
    return false;
  const Operand& key = step.arguments[1];
  const auto items = key.kind == Operand::Tuple ? std::span(key.items) : std::span(&key, 1);
  return std::ranges::all_of(items, [this](const Operand& item) {
    if (item.kind != Operand::Value || place(item.value).kind != Place::Tensor) return false;
    const at::Tensor& tensor = aten::tensor_of(stepper_.value(item.value));
    return tensor.scalar_type() == c10::kLong && tensor.dim() > 0;
  });
}

/// x.contiguous() of a tensor that is contiguous now but perhaps not at another call.
bool Recording::add_contiguous(size_t index, PyObject* result) {
  const Step& step = program_->steps[index];
  if (!is_contiguous_call(step) || place(step.arguments[0].value).kind != Place::Tensor) return false;
  const Register from = place(step.arguments[0].value).index;
  if (!recorder_.seen(from).data_shaped || has_odd_tensor(result)) return false;
  // no Python: the dispatcher's table
  static const c10::OperatorHandle* const contiguous =
      new c10::OperatorHandle(c10::Dispatcher::singleton().findSchemaOrThrow("aten::contiguous", ""));
  const Register to = recorder_.add(aten::tensor_of(result), true);
  place(program_->result(index)) = {Place::Tensor, to, {}, {}};
  append(index).call = std::make_unique<OperatorCall>(
      OperatorCall{*contiguous,
                   {{OperatorArgument::Tensor, {}, {from}},
                    {OperatorArgument::Constant, c10::IValue(c10::MemoryFormat::Contiguous), {}}},
                   {{OperatorResult::Tensor, {to}}}});
  return true;
}

}  // namespace gramme::native
