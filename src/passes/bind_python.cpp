// Chooses how a step's Python function is called; torch.cond over native programs.
#include "passes/bind_python.h"

#include <c10/util/SmallVector.h>

#include <algorithm>

#include "base/imported.h"
#include "base/once.h"
#include "passes/floats.h"

namespace gramme::native {
namespace {

/// cond(pred, program, program, operands), run without the Python call. PythonCall's first operand is the predicate;
/// the others are values among the inputs, in order.
struct BranchCall : PythonCall {
  std::vector<Owned<>> inputs;  // constants; null: the next operand
  const Operand *yes, *no;      // of the step
};

bool is_program(const Operand& operand) { return operand.graph != nullptr; }

bool is_branch(const Step& step, const Place& result) {
  auto is_plain = [](const Operand& operand) {
    return operand.kind == Operand::Value || operand.kind == Operand::Constant;
  };
  return step.arguments.size() == 4 && step.arguments[0].kind == Operand::Value && is_program(step.arguments[1]) &&
         is_program(step.arguments[2]) && std::ranges::all_of(step.arguments[3].items, is_plain) &&
         result.kind == Place::Sequence;
}

std::unique_ptr<BranchCall> branch_call(const Step& step) {
  auto call = std::make_unique<BranchCall>();
  call->yes = &step.arguments[1];
  call->no = &step.arguments[2];
  for (const Operand& operand : step.arguments[3].items) call->inputs.push_back(operand.object);
  return call;
}

bool is_true(const Place& pred, Run& run) {
  if (pred.kind == Place::Tensor) return run.tensors[pred.index]->is_nonzero();
  const int truth = PyObject_IsTrue(object_at(pred, run).get());
  if (truth < 0) throw PythonError();
  return truth == 1;
}

[[gnu::hot]] void run_branch(const Instruction& instruction, Run& run) {
  const auto& call = static_cast<const BranchCall&>(*instruction.bound);
  const Place& pred = call.operands.front().second;
  const bool batched =  // true inside torch.vmap
      pred.kind == Place::Tensor && run.tensors[pred.index]->key_set().has(c10::DispatchKey::FuncTorchBatched);
  if (batched) return run_python(instruction, run);
  WithGil gil(run);
  c10::SmallVector<Owned<>, 8> held;
  c10::SmallVector<PyObject*, 8> inputs, outputs(call.result.items.size());
  auto operand = call.operands.begin() + 1;
  for (const Owned<>& input : call.inputs)
    inputs.push_back(held.emplace_back(input ? input : object_at(operand++->second, run)).get());
  size_t failed = 0;
  const Operand& chosen = is_true(pred, run) ? *call.yes : *call.no;
  if (!chosen.graph(chosen.object.get(), inputs.data(), inputs.size(), outputs.data(), outputs.size(), &failed))
    throw PythonError();
  c10::SmallVector<Owned<>, 8> results;
  for (PyObject* output : outputs) results.push_back(Owned<>::steal(output));
  for (size_t i = 0; i < results.size(); ++i) put_object(results[i].get(), call.result.items[i], run);
}

}  // namespace

void bind_python(Instruction& instruction, const Step& step, const std::vector<Place>& places, Place result,
                 std::string why) {
  const bool branches = is_branch(step, result);
  std::unique_ptr<PythonCall> bound = float_call(step, places, result);
  const bool floats = bound != nullptr;
  if (!floats) bound = branches ? branch_call(step) : std::make_unique<PythonCall>();
  bound->step = &step;
  bound->result = std::move(result);
  bound->why = std::move(why);
  each_value(step, [&](ValueId value) { bound->operands.emplace_back(value, places[static_cast<size_t>(value)]); });
  instruction.kind = Instruction::Python;
  instruction.bound = std::move(bound);
  instruction.invoke = floats ? invoke_of_floats() : branches ? run_branch : run_python;
}

bool runs_programs(const Step& step) { return std::any_of(step.arguments.begin(), step.arguments.end(), is_program); }

bool is_block(PyObject* object) {
  PyObject* const block = once([] { return imported("gramme._higher_order", "Block").release(); });
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == block;
}

bool runs_block(const Step& step) {
  return !step.arguments.empty() && step.arguments[0].object && is_block(step.arguments[0].object.get());
}

}  // namespace gramme::native
