// Finds runs of steps on plain tensors, makes programs of them, and runs both kinds of steps in turn.
#include "native/parts.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "aten/python.h"
#include "aten/state.h"
#include "base/error.h"
#include "base/gil.h"
#include "base/signals.h"
#include "native/call.h"
#include "native/executor.h"
#include "record/targets.h"
#include "tape/stepper.h"
#include "torch/names.h"
#include "training/forward_call.h"

namespace gramme::native {
namespace {

/// A call of a program and its conditions cost as much as some steps.
constexpr size_t kWorth = 3;

/// True for a plain tensor, and for a tuple or list of some.
bool is_plain(PyObject* object) {
  if (is_plain_tensor(object)) return true;
  if (!object || (!PyTuple_CheckExact(object) && !PyList_CheckExact(object))) return false;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(object);
  PyObject** const items = PySequence_Fast_ITEMS(object);
  return count > 0 && std::all_of(items, items + count, is_plain_tensor);
}

/// The class of wrappers that wait for a collective; beside it is a function that gramme knows.
PyObject* class_of_waiting() {
  PyObject* const function = of_torch::if_loaded(of_torch::WaitTensor);
  return function && PyFunction_Check(function)
             ? PyDict_GetItemString(PyFunction_GET_GLOBALS(function), "AsyncCollectiveTensor")
             : nullptr;
}

/// Renumbers values.
Operand renamed(const Operand& operand, const std::unordered_map<ValueId, ValueId>& names) {
  Operand made = operand;
  if (made.kind == Operand::Value) made.value = names.at(made.value);
  for (Operand& item : made.items) item = renamed(item, names);
  return made;
}

/// A run of steps as a program.
Program program_of(const Program& from, size_t first, size_t end, const std::vector<ValueId>& inputs,
                   const std::vector<ValueId>& outputs) {
  Program made;
  std::unordered_map<ValueId, ValueId> names;
  for (ValueId input : inputs) names[input] = made.inputs++;
  for (size_t i = first; i < end; ++i) names[from.result(i)] = made.result(i - first);
  for (size_t i = first; i < end; ++i) {
    Step& step = made.steps.emplace_back(from.steps[i]);
    for (Operand& argument : step.arguments) argument = renamed(argument, names);
    for (auto& [name, argument] : step.keywords) argument = renamed(argument, names);
    step.dying.clear();
    if (step.node < 0) step.node = static_cast<int32_t>(i);
  }
  made.output.kind = Operand::Tuple;
  for (ValueId output : outputs) {
    Operand& item = made.output.items.emplace_back();
    item.kind = Operand::Value;
    item.value = names.at(output);
  }
  made.find_last_uses();
  return made;
}

/// The operator of a wait that a capture has put behind DTensor.to_local(); nullopt for other steps.
std::optional<Parts::WaitOperator> wait_for_local(const Program& program, size_t index) {
  static PyObject* const to_local = intern("to_local");
  const Step& step = program.steps[index];
  if (step.kind != Step::Function || step.arguments.size() != 1 || !step.keywords.empty()) return std::nullopt;
  const Operand& argument = step.arguments[0];
  if (argument.kind != Operand::Value || argument.value < program.inputs) return std::nullopt;
  const Step& made_by = program.steps[static_cast<size_t>(argument.value - program.inputs)];
  if (made_by.kind != Step::Method || PyUnicode_Compare(made_by.target.get(), to_local) != 0) return std::nullopt;
  const std::string name = operator_of(step);
  if (!name.ends_with("::wait_tensor")) return std::nullopt;
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").typed<at::Tensor(const at::Tensor&)>();
}

/// The tensor when the collective that makes it is done. The local tensor of an asynchronous one is a wrapper, whose
/// place in autograd's graph the tensor inside takes: an operator's node between them would be in Python.
Owned<> waited(const Parts::WaitOperator& wait, PyObject* object) {
  static PyObject* const inner = intern("elem");
  Owned<> plain = is_plain_tensor(object) ? share(object) : take(PyObject_GetAttr(object, inner));
  const at::Tensor given = aten::tensor_of(object);
  at::Tensor made = aten::tensor_of(plain.get());
  {
    const GilReleased released;
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      wait.call(made);
    }
    if (given.is_same(made) || !given.requires_grad() || !c10::GradMode::is_enabled()) return plain;
    made = without_history(made);
    torch::autograd::impl::set_gradient_edge(made, torch::autograd::impl::gradient_edge(given));
  }
  return aten::object_of(made);
}

}  // namespace

std::shared_ptr<const Parts> Parts::find(const Program& program, PyObject* const* inputs, const Make& make,
                                         Owned<>& output, size_t* failed) {
  const size_t count = program.steps.size();
  Targets targets;
  std::vector<bool> plain(count);
  std::unordered_set<ValueId> tensors;
  for (ValueId i = 0; i < program.inputs; ++i)
    if (is_plain_tensor(inputs[i])) tensors.insert(i);
  std::vector<std::optional<WaitOperator>> waits(count);
  Stepper stepper(program, inputs);
  for (size_t i = 0; i < count; ++i) {
    *failed = i;
    look_for_signals();
    const Step& step = program.steps[i];
    const aten::GlobalState before = aten::GlobalState::read();
    PyObject* const result = stepper.run(i);
    bool all = targets.of(step).transparent && is_plain(result) && aten::GlobalState::read() == before;
    each_value(step, [&](ValueId value) { all &= is_plain(stepper.value(value)); });
    plain[i] = all;
    if (is_plain_tensor(result)) waits[i] = wait_for_local(program, i);
    if (is_plain_tensor(result)) tensors.insert(program.result(i));
    stepper.drop_after(i);
  }
  output = stepper.output();

  std::vector<size_t> last(static_cast<size_t>(program.inputs) + count);  // by value: behind its last use
  for (size_t i = 0; i < count; ++i)
    each_value(program.steps[i], [&](ValueId value) { last[static_cast<size_t>(value)] = i + 1; });
  each_value(program.output, [&](ValueId value) { last[static_cast<size_t>(value)] = count + 1; });
  auto parts = std::make_shared<Parts>();
  if (PyObject* const waiting = class_of_waiting()) parts->waiting_ = share(waiting);
  bool any = false;
  for (size_t first = 0, end; first < count; first = end) {
    for (end = first + 1; end < count && !waits[first] && !waits[end] && plain[end] == plain[first];) ++end;
    Part& part = parts->parts_.emplace_back(Part{first, end, {}, waits[first], {}, {}});
    any |= part.wait.has_value();
    if (part.wait || !plain[first] || end - first < kWorth) continue;
    for (size_t i = first; i < end; ++i)
      each_value(program.steps[i], [&](ValueId value) {
        if (value < program.result(first) && std::ranges::find(part.inputs, value) == part.inputs.end())
          part.inputs.push_back(value);
      });
    for (size_t i = first; i < end; ++i)
      if (last[static_cast<size_t>(program.result(i))] > end) part.outputs.push_back(program.result(i));
    auto is_tensor = [&](ValueId value) { return tensors.contains(value); };
    if (!std::ranges::all_of(part.inputs, is_tensor) || !std::ranges::all_of(part.outputs, is_tensor)) continue;
    part.executor = make(program_of(program, first, end, part.inputs, part.outputs));
    any = true;
  }
  return any ? parts : nullptr;
}

Owned<> Parts::run(const Program& program, PyObject* const* inputs, size_t* failed) const {
  Stepper stepper(program, inputs);
  std::vector<PyObject*> given, made;
  for (const Part& part : parts_) {
    if (part.executor) {
      given.clear();
      for (ValueId value : part.inputs) given.push_back(stepper.value(value));
      made.assign(part.outputs.size(), nullptr);
      look_for_signals();
      if (!call_graph(part.executor.get(), given.data(), given.size(), made.data(), made.size(), failed))
        throw PythonError();
      for (size_t i = 0; i < made.size(); ++i) stepper.set(part.outputs[i], Owned<>::steal(made[i]));
    }
    for (size_t i = part.first; i < part.end; ++i) {
      if (!part.executor) {
        look_for_signals();
        try {
          PyObject* const local = part.wait ? stepper.value(program.steps[i].arguments[0].value) : nullptr;
          if (local && (is_plain_tensor(local) || reinterpret_cast<PyObject*>(Py_TYPE(local)) == waiting_.get()))
            stepper.set(program.result(i), waited(*part.wait, local));
          else
            stepper.run(i);
        } catch (const PythonError&) {
          note_origin(program, i, failed);
          throw;
        }
      }
      stepper.drop_after(i);
    }
  }
  return stepper.output();
}

}  // namespace gramme::native
