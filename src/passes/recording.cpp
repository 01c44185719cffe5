// Carries out each step, decides from the observed operators whether they replace it, and assigns places to results.
#include "passes/recording.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "aten/python.h"
#include "aten/state.h"
#include "base/error.h"
#include "base/signals.h"
#include "passes/assemble.h"
#include "passes/bind_python.h"
#include "passes/linear.h"
#include "record/parts.h"
#include "record/targets.h"
#include "tape/registers.h"

namespace gramme::native {
namespace {

bool contains(const Place& place, Place::Kind kind) {
  if (place.kind == kind) return true;
  return std::any_of(place.items.begin(), place.items.end(), [&](const Place& item) { return contains(item, kind); });
}

/// True if the place holds anything but tensors and ints that can be passed as symbols.
bool holds_others(const Place& place) { return contains(place, Place::Object) || contains(place, Place::Float); }

bool makes_list(const Observed& record) {
  return std::any_of(record.call.results.begin(), record.call.results.end(),
                     [](const OperatorResult& result) { return result.kind == OperatorResult::Tensors; });
}

/// True if every part is a tensor or None.
bool holds_only_tensors(PyObject* object) {
  if (object == Py_None || aten::is_tensor(object)) return true;
  if (!PyTuple_Check(object) && !PyList_Check(object)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
    if (!holds_only_tensors(PySequence_Fast_GET_ITEM(object, i))) return false;
  return true;
}

bool holds_number(const Place& place) {
  if (place.kind == Place::Constant) return place.object.get() != Py_None;
  return std::any_of(place.items.begin(), place.items.end(), holds_number);
}

}  // namespace

bool has_odd_tensor(PyObject* object) {
  if (object && aten::is_tensor(object))
    return !aten::is_exact_tensor(object) || aten::tensor_of(object).key_set().has_any(c10::python_ks);
  if (!object || (!PyTuple_Check(object) && !PyList_Check(object))) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
    if (has_odd_tensor(PySequence_Fast_GET_ITEM(object, i))) return true;
  return false;
}

Recording::Recording(std::shared_ptr<const Program> program, PyObject* const* inputs, bool any_sizes, bool trains,
                     bool casts)
    : program_(std::move(program)),
      stepper_(*program_, inputs),
      casts_(casts && aten::autocast_or_inference_alone()),
      inference_(aten::inference_mode()),
      below_autograd_(casts_ || (aten::autocast_or_inference_alone() && !aten::autocast_enabled())),
      trains_(trains && !any_sizes && aten::autograd_and_autocast_alone()),
      recorder_(below_autograd_ || trains_ ? Apart::Composites : Apart::Linear, any_sizes) {
  recorder_.reserve(2 * program_->steps.size());
  places_.resize(static_cast<size_t>(program_->inputs) + program_->steps.size());
  for (ValueId i = 0; i < program_->inputs; ++i) {
    PyObject* object = inputs[i];
    const bool varies = any_sizes && !program_->is_fixed(i);
    if (!aten::is_tensor(object)) continue;
    const at::Tensor& tensor = aten::tensor_of(object);
    place(i) = {Place::Tensor, recorder_.input(tensor, varies), {}, {}};
    may_be_cached_.push_back((trains_ || casts_) && is_cached_by_autocast(tensor));
  }
  inputs_ = recorder_.registers();
  for (ValueId i = 0; i < program_->inputs; ++i) {
    if (aten::is_tensor(inputs[i])) continue;
    if (any_sizes && program_->may_be_symbol(i) && Numbers::fits(inputs[i]))
      place(i) = {Place::Number, recorder_.numbers().symbol(PyLong_AsLongLong(inputs[i]), false), {}, {}};
    else
      place(i) = {Place::Object, objects_++, {}, {}};
  }
}

Owned<> Recording::run(size_t* failed) {
  Recorder::Watch watch(recorder_);
  for (size_t step = 0; step < program_->steps.size(); ++step) {
    *failed = step;
    recorder_.mark();
    record(step);
    recorder_.mark();
    stepper_.drop_after(step);
    look_for_signals();
    recorder_.undo();  // drops what finalizers and signal handlers did
    recorder_.forget();
  }
  return stepper_.output();
}

Instruction& Recording::append(size_t step) {
  Instruction& instruction = instructions_.emplace_back();
  instruction.step = static_cast<uint32_t>(step);
  return instruction;
}

void Recording::record(size_t index) {
  const Step& step = program_->steps[index];
  const aten::GlobalState before = aten::GlobalState::read();
  warnings_.take();
  PyObject* result = carry_out(index);
  std::vector<Observed>& observed = observed_;
  recorder_.take(observed);
  if (warnings_.take()) return add_python(index, result, "it warns");
  if (recorder_.numbers().take_fixed()) return add_python(index, result, "it asks what a number is");
  if (add_number(index)) return;
  if (add_mode(index, result) || add_element(index) || add_literal(index, result)) return;
  if ((observed.empty() && add_contiguous(index, result)) || add_index(index, result)) return;
  if (!(aten::GlobalState::read() == before)) {
    below_autograd_ = false;
    return add_python(index, result, "it changes a mode of the thread");
  }
  std::string why = why_python(step, result, observed);
  if (!why.empty()) return add_python(index, result, std::move(why));
  place(program_->result(index)) = *find(result);
  add_operators(index, observed);
}

/// The numeral of a value that may differ at the next call.
std::optional<Numeral> Recording::numeral_of(ValueId value) const {
  const Place& known = place(value);
  if (known.kind == Place::Number) return Numeral{Numeral::Whole, known.index};
  if (!PyFloat_CheckExact(stepper_.value(value))) return std::nullopt;
  if (known.kind == Place::Float) return Numeral{Numeral::Float, known.index};
  return known.kind == Place::Object ? std::optional(Numeral{Numeral::Object, known.index}) : std::nullopt;
}

/// Runs the step with symbols for its numbers, if that can be followed; else with plain numbers.
PyObject* Recording::carry_out(size_t index) {
  const Step& step = program_->steps[index];
  symbols_ = takes_symbols(step);
  recorder_.begin_step(step.sizes, symbols_);
  if (!symbols_) return stepper_.run(index);
  try {
    const SignalsHeld held;  // a failure is handled by another way
    PlainForKernels plain;
    PyObject* result = stepper_.run(index, [this](ValueId value) {
      const std::optional<Numeral> number = numeral_of(value);
      return number ? recorder_.numbers().symbolic(*number, stepper_.value(value)) : Owned<>();
    });
    if (holds_only_tensors(result) || !recorder_.is_idle()) return result;
  } catch (const PythonError&) {
    if (!recorder_.is_idle()) throw;
    PyErr_Clear();
  }
  symbols_ = false;  // the failed attempt had no effects
  recorder_.begin_step(step.sizes, false);
  return stepper_.run(index);
}

/// True if the step takes varying numbers and passes them only to operators.
bool Recording::takes_symbols(const Step& step) {
  bool numbers = false, tensors = false, others = false;
  each_value(step, [&](ValueId value) {
    const bool number = numeral_of(value).has_value();
    numbers |= number;
    tensors |= contains(place(value), Place::Tensor);
    others |= (!number && holds_others(place(value))) || has_odd_tensor(stepper_.value(value));
  });
  if (!numbers || others || !targets_.of(step).transparent || reads_numbers(step)) return false;
  if (recorder_.any_sizes() && looks_at_sizes(step)) return false;
  return tensors || !is_arithmetic(step);
}

/// Why the step cannot be replaced by the operators it called; empty if it can.
std::string Recording::why_python(const Step& step, PyObject* result, std::vector<Observed>& observed) {
  if (!targets_.of(step).transparent)
    return !program_->blocks.empty() && runs_block(step) ? "a checkpoint has tapes of its own"
                                                         : "its target is not PyTorch's";
  bool tensors = false, objects = false, odd = false, numbers = false;
  each_value(step, [&](ValueId value) {
    numbers |= place(value).kind == Place::Number;
    tensors |= contains(place(value), Place::Tensor);
    objects |= holds_others(place(value)) && !(symbols_ && numeral_of(value));
    odd |= has_odd_tensor(stepper_.value(value));
  });
  const bool steady = is_steady(step);
  if (objects) return "an argument is known only when it runs";
  if (odd) return "an argument is of a subclass of Tensor";
  if (numbers && !symbols_) return "it looks at numbers that may be others";
  if (!steady && looks_at_sizes(step) && !indexes_by_tensors(step, observed))
    return "it may look at sizes that data decides";
  for (const Observed& record : observed) {
    if (record.unusable) return record.call.op.operator_name().name + ": " + record.unusable;
    if (record.grad_mode != c10::GradMode::is_enabled()) return "the grad mode changes inside";
    if (record.data_shaped && makes_list(record) && !program_->any_sizes)  // otherwise guards fix the number of items
      return "data may decide how many tensors it gives";
  }
  const std::string& own = targets_.of(step).of_program;
  auto is_own = [&](const Observed& record) { return record.call.op.operator_name().name == own; };
  if (!own.empty() && !std::ranges::any_of(observed, is_own)) return "it passes the dispatcher by";
  const std::optional<Place> found = find(result);
  if (!found || has_odd_tensor(result)) return "its result is not made by operators";
  const Uninitialized uninitialized = find_uninitialized(observed, recorder_);
  bool hidden = uninitialized.read;
  if (!targets_.of(step).leaves_uninitialized)
    each_register(*found, [&](Register r) { hidden |= uninitialized.tensors.count(r) != 0; });
  if (hidden) return "data is written past the operators";
  if (holds_number(*found) && tensors && !(tells_metadata(step) && steady)) return "its result is not a tensor";
  if (observed.empty()) {
    const bool told = tells_metadata(step) && steady, computed = is_fixed(step) && is_arithmetic(step);
    if (!told && !computed && !(may_do_nothing(step) && steady) && !only_counts(step)) return "it calls no operator";
  }
  return {};
}

/// The place of an object whose parts were all made by operators; else nullopt.
std::optional<Place> Recording::find(PyObject* result) const {
  if (aten::is_tensor(result)) {
    const at::Tensor& tensor = aten::tensor_of(result);
    const Register r = recorder_.find(tensor);
    if (r == kNone) return std::nullopt;
    const bool is_input = r < inputs_;
    const bool set_by_binding = tensor.requires_grad() && tensor.is_leaf() && !tensor.is_view();
    if (!is_input && set_by_binding) return std::nullopt;
    return Place{Place::Tensor, r, {}, {}};
  }
  if (!PyTuple_Check(result) && !PyList_Check(result)) return Place{Place::Constant, 0, share(result), {}};
  Place whole{Place::Sequence, 0, share(reinterpret_cast<PyObject*>(Py_TYPE(result))), {}};
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); ++i) {
    std::optional<Place> item = find(PySequence_Fast_GET_ITEM(result, i));
    if (!item) return std::nullopt;
    whole.items.push_back(std::move(*item));
  }
  return whole;
}

// ---- instructions

void Recording::add_python(size_t index, PyObject* result, std::string why) {
  const Step& step = program_->steps[index];
  if (trains_) stay_eager("Python takes part in " + step.name + ": " + why);
  const bool opaque = !targets_.of(step).transparent || is_steady(step);
  recorder_.undo();
  Place made = add_result(result, opaque, !runs_programs(step));
  place(program_->result(index)) = made;
  bind_python(append(index), step, places_, std::move(made), std::move(why));
}

/// True if guards fix all numbers and tensor sizes among the arguments.
bool Recording::is_steady(const Step& step) const {
  bool steady = true;
  each_value(step, [&](ValueId value) {
    steady &= !is_number(place(value));
    each_register(place(value), [&](Register r) { steady &= !recorder_.seen(r).data_shaped; });
  });
  return steady;
}

/// Makes places for a Python call's result. `fixed`: a tuple has the same length at every call; `by_data`: sizes may
/// depend on data.
Place Recording::add_result(PyObject* result, bool fixed, bool by_data) {
  if (aten::is_tensor(result)) return {Place::Tensor, recorder_.add(aten::tensor_of(result), by_data), {}, {}};
  if (!fixed || !PyTuple_Check(result)) return {Place::Object, objects_++, {}, {}};
  Place whole{Place::Sequence, 0, share(reinterpret_cast<PyObject*>(Py_TYPE(result))), {}};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i)
    whole.items.push_back(add_result(PyTuple_GET_ITEM(result, i), fixed, by_data));
  return whole;
}

/// `casts`: autocast's kernel called them.
void Recording::add_operators(size_t index, std::vector<Observed>& observed, bool casts) {
  for (Observed& record : observed)
    if (!record.only_tells) add_operator(index, record, casts);
}

void Recording::add_operator(size_t index, Observed& record, bool casts) {
  const bool writes = !record.written.empty();
  const bool makes = std::any_of(record.call.results.begin(), record.call.results.end(),
                                 [](const OperatorResult& result) { return result.kind != OperatorResult::Dropped; });
  flatten(index, record);
  if (record.gives_back && !writes && !makes) return;  // it had nothing to do
  met_autocast_ |= record.autocast || record.casts_inside;
  if (can_be_taken_apart(record)) {
    took_apart_ = true;
    return add_operators(index, record.parts, casts || record.autocast);
  }
  if (record.autocast || record.casts_inside) why_autocast_ = record.call.op.operator_name().name;
  if (casts_ && casts && add_cast(record.call)) return;
  Instruction& instruction = append(index);
  instruction.call = std::make_unique<OperatorCall>(std::move(record.call));
  prepare_linear(instruction, record.parts, recorder_, below_autograd_);
}

bool Recording::can_be_taken_apart(const Observed& record) const {
  const bool varies = record.data_shaped && !record.blind;
  if (!below_autograd_ || record.parts.empty() || varies || takes_numbers(record)) return false;
  // In inference mode some composites (narrow) have a kernel that makes the view; their parts would not.
  if (inference_ && record.call.op.hasKernelForDispatchKey(c10::DispatchKey::ADInplaceOrView)) return false;
  for (const Observed& part : record.parts) {
    const bool mode =
        part.grad_mode == record.grad_mode || record.autocast;  // autocast casts parameters with gradients
    if ((part.unusable && !part.only_tells) || !mode) return false;
  }
  return is_only_its_parts(record, recorder_);
}

/// The place of an operand's value at the end of the tape.
Place Recording::place_of(const Operand& operand) const {
  switch (operand.kind) {
    case Operand::Value:
      return place(operand.value);
    case Operand::Tuple:
    case Operand::List: {
      auto* type = reinterpret_cast<PyObject*>(operand.kind == Operand::List ? &PyList_Type : &PyTuple_Type);
      Place whole{Place::Sequence, 0, operand.object ? operand.object : share(type), {}};
      for (const Operand& item : operand.items) whole.items.push_back(place_of(item));
      return whole;
    }
    case Operand::Dict:
    case Operand::Slice: {
      Place whole{operand.kind == Operand::Dict ? Place::Mapping : Place::Range, 0, {}, {}};
      for (const Operand& item : operand.items) whole.items.push_back(place_of(item));
      return whole;
    }
    case Operand::Constant:
      return {Place::Constant, 0, operand.object, {}};
  }
  GRAMME_BUG("an operand of no kind");
}

Assembly Recording::assembly(std::vector<Instruction> instructions) const {
  return {program_,
          std::move(instructions),
          {places_.begin(), places_.begin() + program_->inputs},
          place_of(program_->output),
          recorder_,
          objects_,
          modes_,
          below_autograd_,
          inference_};
}

std::string Recording::why_autocast() const {
  if (!casts_ || !met_autocast_) return {};
  if (!why_autocast_.empty()) return why_autocast_;
  auto is_python = [](const Instruction& each) { return each.kind == Instruction::Python; };
  return !below_autograd_ || std::ranges::any_of(instructions_, is_python) ? "Python takes part" : "";
}

std::unique_ptr<Tape> Recording::assemble() {
  Assembly all = assembly(std::move(instructions_));
  all.fuses = true;
  all.has_casts = casts_ && met_autocast_;
  if (all.has_casts) add_casts(all);
  std::unique_ptr<Tape> tape = native::assemble(std::move(all));
  const bool linear = std::ranges::any_of(tape->instructions, is_prepared_linear);
  if (took_apart_ || linear) tape->settings = KernelSettings::read();
  return tape;
}

}  // namespace gramme::native
