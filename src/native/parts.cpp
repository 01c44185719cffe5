// Finds runs of steps of both kinds, and runs them in turn.
#include "native/parts.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "aten/python.h"
#include "aten/state.h"
#include "base/error.h"
#include "base/signals.h"
#include "native/call.h"
#include "native/executor.h"
#include "record/targets.h"
#include "tape/stepper.h"

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

}  // namespace

std::shared_ptr<const Parts> Parts::find(const Program& program, PyObject* const* inputs, const Make& make, bool trains,
                                         Owned<>& output, size_t* failed) {
  const size_t count = program.steps.size();
  Targets targets;
  std::vector<bool> plain(count);
  std::unordered_set<ValueId> tensors;
  for (ValueId i = 0; i < program.inputs; ++i)
    if (is_plain_tensor(inputs[i])) tensors.insert(i);
  auto parts = std::make_shared<Parts>();
  parts->waits_.resize(count);
  Stepper stepper(program, inputs);
  for (size_t i = 0; i < count; ++i) {
    *failed = i;
    look_for_signals();
    const Step& step = program.steps[i];
    const aten::GlobalState before = aten::GlobalState::read();
    PyObject* const result = stepper.run(i);
    bool all = targets.of(step).transparent && is_plain(result) && aten::GlobalState::read() == before;
    each_value(step, [&](ValueId value) { all &= is_plain(stepper.value(value)); });
    if (is_plain_tensor(result)) parts->waits_[i] = wait_for_local(program, i);
    plain[i] = all && !parts->waits_[i];
    if (is_plain_tensor(result)) tensors.insert(program.result(i));
    stepper.drop_after(i);
  }
  output = stepper.output();

  std::vector<size_t> last(static_cast<size_t>(program.inputs) + count);  // by value: behind its last use
  for (size_t i = 0; i < count; ++i)
    each_value(program.steps[i], [&](ValueId value) { last[static_cast<size_t>(value)] = i + 1; });
  each_value(program.output, [&](ValueId value) { last[static_cast<size_t>(value)] = count + 1; });
  if (PyObject* const waiting = class_of_waiting()) parts->waiting_ = share(waiting);
  bool any = std::ranges::any_of(parts->waits_, [](const auto& wait) { return wait.has_value(); });
  for (size_t first = 0, end; first < count; first = end) {
    const bool wraps = !plain[first];
    for (end = first + 1; end < count && plain[end] != wraps;) ++end;
    Part& part = parts->parts_.emplace_back(Part{first, end, {}, {}, {}, {}});
    if (!wraps && end - first < kWorth) continue;
    for (size_t i = first; i < end; ++i)
      each_value(program.steps[i], [&](ValueId value) {
        if (value < program.result(first) && std::ranges::find(part.inputs, value) == part.inputs.end())
          part.inputs.push_back(value);
      });
    for (size_t i = first; i < end; ++i)
      if (last[static_cast<size_t>(program.result(i))] > end) part.outputs.push_back(program.result(i));
    auto is_tensor = [&](ValueId value) { return tensors.contains(value); };
    if (!std::ranges::all_of(part.outputs, is_tensor) || part.outputs.empty()) continue;
    if (!wraps && !std::ranges::all_of(part.inputs, is_tensor)) continue;
    Program run = program_of(program, first, end, part.inputs, part.outputs);
    wraps ? void(part.local = LocalRun::make(std::move(run), trains)) : void(part.executor = make(std::move(run)));
    any |= part.executor || part.local;
  }
  return any ? parts : nullptr;
}

bool Parts::run_whole(const Part& part, const Program& program, Stepper& stepper, size_t* failed) const {
  std::vector<PyObject*> given;
  for (ValueId value : part.inputs) given.push_back(stepper.value(value));
  std::vector<Owned<>> made;
  look_for_signals();
  if (part.executor) {
    std::vector<PyObject*> outputs(part.outputs.size());
    if (!call_graph(part.executor.get(), given.data(), given.size(), outputs.data(), outputs.size(), failed))
      throw PythonError();
    for (PyObject* output : outputs) made.push_back(Owned<>::steal(output));
  } else {
    size_t step = 0;
    try {
      if (!part.local->run(given, made, &step)) return false;
    } catch (const PythonError&) {
      note_origin(program, part.first + step, failed);
      throw;
    }
  }
  for (size_t i = 0; i < made.size(); ++i) stepper.set(part.outputs[i], std::move(made[i]));
  return true;
}

Owned<> Parts::run(const Program& program, PyObject* const* inputs, size_t* failed) const {
  Stepper stepper(program, inputs);
  for (const Part& part : parts_) {
    const bool done = (part.executor || part.local) && run_whole(part, program, stepper, failed);
    for (size_t i = part.first; i < part.end; ++i) {
      if (!done) {
        look_for_signals();
        try {
          PyObject* const local = waits_[i] ? stepper.value(program.steps[i].arguments[0].value) : nullptr;
          if (local && (is_plain_tensor(local) || reinterpret_cast<PyObject*>(Py_TYPE(local)) == waiting_.get()))
            stepper.set(program.result(i), waited(*waits_[i], local));
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
