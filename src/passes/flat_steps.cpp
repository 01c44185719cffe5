// The flat tape of a recording, for a recorded backward: the operators for which autograd's kernels were called, with
// composites replaced by what they called.
#include <c10/core/GradMode.h>

#include <algorithm>

#include "passes/assemble.h"
#include "passes/functional.h"
#include "passes/recording.h"
#include "record/parts.h"
#include "tape/modes.h"
#include "tape/registers.h"

namespace gramme::native {

/// Appends the operator, or those that it called, to the flat tape. `casts`: autocast's kernel called it.
void Recording::flatten(size_t step, const Observed& record, bool casts) {
  const bool makes = std::ranges::any_of(record.call.results, [](const OperatorResult& result) {
    return std::ranges::any_of(result.registers, [](Register r) { return r != kNone; });
  });
  if (!trains_ || (record.gives_back && record.written.empty() && !makes)) return;
  if (std::string why = why_not_flat(record); !why.empty())
    return stay_eager(record.call.op.operator_name().name + ": " + why);
  if (record.only_tells) return;
  if (!is_composite(record.call.op) && !record.autocast) return flatten(step, record.call, casts);
  for (const Observed& part : record.parts) flatten(step, part, casts || record.autocast);
}

/// Why a call cannot be part of a flat tape; empty if it can.
std::string Recording::why_not_flat(const Observed& record) const {
  if (record.data_shaped) return "data decides";
  if (record.foreign) return record.unusable;
  if (record.casts_inside) return "autocast casts inside of its kernel";
  if (record.grad_mode != c10::GradMode::is_enabled()) return "the grad mode changes inside";
  if (takes_numbers(record)) return "it takes numbers that may be others";
  if (record.only_tells) return {};
  if (is_composite(record.call.op) || record.autocast) {
    if (record.parts.empty()) return "a composite that is not known";
    return is_only_its_parts(record, recorder_) ? "" : "a composite that does more than it calls";
  }
  const c10::OperatorName& name = record.call.op.operator_name();
  if (record.unusable) return record.unusable;
  if (name.getNamespace() != "aten" && !is_known_of_library(record.call.op)) return "it is not PyTorch's";
  if (name.name == "aten::mkldnn_rnn_layer" && !record.grad_mode) return "its kernel asks for the grad mode";
  auto may_write = [this](Register r) { return !shares_with_inputs(r) || is_input_alone(r); };
  if (!std::ranges::all_of(record.written, may_write)) return "it writes to a view of an input";
  bool hidden = true;
  each_hidden_write(record.call, [&](Register r) { hidden &= may_write(r); });
  return hidden ? "" : "it writes to a view of an input";
}

void Recording::stay_eager(std::string why) {
  trains_ = false;
  why_not_flat_ = std::move(why);
}

/// True for an input that shares no memory with other inputs.
bool Recording::is_input_alone(Register r) const {
  if (r >= inputs_ || !recorder_.seen(r).plain) return false;
  for (Register input = 0; input < inputs_; ++input)
    if (input != r && recorder_.seen(input).storage == recorder_.seen(r).storage) return false;
  return true;
}

bool Recording::shares_with_inputs(Register r) const {
  const Seen& seen = recorder_.seen(r);
  if (!seen.plain) return true;
  for (Register input = 0; input < inputs_; ++input)
    if (recorder_.seen(input).storage == seen.storage) return true;
  return false;
}

/// Notes a cast made by autocast as an input of the tape if it is of a parameter, and autocast keeps it; else false.
bool Recording::add_cast(const OperatorCall& call) {
  if (!AutocastState::read().cached || call.op.operator_name().name != "aten::_to_copy") return false;
  const std::vector<Register>& from = call.arguments[0].registers;
  if (from.size() != 1 || from[0] < 0 || from[0] >= inputs_ || !may_be_cached_[static_cast<size_t>(from[0])])
    return false;
  const Register made = call.results[0].registers[0];
  if (recorder_.seen(made).dtype() == c10::kFloat) return false;
  made_.emplace_back(from[0], made);
  return true;
}

/// True if no parameter that is cast has another use. Casts are made before the tape, so the engine would sum the
/// gradients of the two uses, and those of uses elsewhere, in another order.
bool Recording::casts_associate() const {
  return std::ranges::all_of(made_, [this](const auto& cast) {
    const Register from = cast.first;
    auto uses = std::ranges::count(made_, from, &std::pair<Register, Register>::first);
    for (const Instruction& instruction : flat_) each_read(instruction, [&](Register read) { uses += read == from; });
    return uses == 1;
  });
}

/// Makes the noted casts inputs of the tape.
void Recording::add_casts(Assembly& assembly) const {
  for (const auto& [from, made] : made_) {
    const auto input = std::ranges::find_if(
        assembly.inputs, [from](const Place& place) { return place.kind == Place::Tensor && place.index == from; });
    assembly.casts.push_back({static_cast<size_t>(input - assembly.inputs.begin()), recorder_.seen(made).dtype()});
  }
  for (const auto& [from, made] : made_) assembly.inputs.push_back({Place::Tensor, made, {}, {}});
}

void Recording::flatten(size_t step, const OperatorCall& call, bool casts) {
  if (casts && add_cast(call)) return;
  Instruction& instruction = flat_.emplace_back();
  instruction.step = static_cast<uint32_t>(step);
  instruction.call = std::make_unique<OperatorCall>(call);
}

std::unique_ptr<Tape> Recording::assemble_flat() {
  auto fits = [](const Instruction& instruction) {
    if (instruction.kind != Instruction::Mode) return instruction.kind == Instruction::Operator;
    const ModeCall::Kind kind = mode_of(instruction).kind;  // the flat tape has casts in autocast's place
    return kind == ModeCall::SetGrad || kind == ModeCall::EnterAutocast || kind == ModeCall::ExitAutocast;
  };
  if (!trains_) return nullptr;
  if (!std::ranges::all_of(instructions_, fits) || objects_ != 0) {
    stay_eager("Python takes part");
    return nullptr;
  }
  if (fixed() || flat_.empty() || !c10::GradMode::is_enabled()) return nullptr;
  if (!casts_associate()) {
    stay_eager("autocast casts a parameter that has other uses");
    return nullptr;
  }
  Assembly assembly = this->assembly(std::move(flat_));
  add_casts(assembly);
  auto program = std::make_shared<Program>();  // nodes may outlive the steps
  program->inputs = static_cast<ValueId>(assembly.inputs.size());
  assembly.program = std::move(program);
  make_functional(assembly, recorder_);
  std::unique_ptr<Tape> tape = native::assemble(std::move(assembly));
  tape->settings = KernelSettings::read();
  return tape;
}

}  // namespace gramme::native
