// Decides by type, layout and sharing whether an in-place operator may be replaced.
#include "passes/functional.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "passes/aliases.h"
#include "tape/modes.h"
#include "tape/registers.h"
#include "torch/calls.h"

namespace gramme::native {
namespace {

/// True for elementwise operators whose in-place and functional forms use one kernel.
bool has_both_forms(std::string_view name) { return of_torch::is_operator(name, "", of_torch::BothForms); }

bool is_contiguous(const Seen& seen) {
  int64_t expected = 1;
  for (size_t d = seen.sizes().size(); d-- > 0;) {
    if (seen.strides()[d] != expected) return false;
    expected *= seen.sizes()[d];
  }
  return true;
}

class Rewriter {
 public:
  Rewriter(Assembly& assembly, Recorder& recorder)
      : assembly_(assembly), recorder_(recorder), aliases_(assembly), inputs_(inputs(assembly)) {}

  void run() {
    for (Register r : inputs_) ++made_[group_of(r)];
    for (const auto& [r, tensor] : recorder_.constants()) ++made_[group_of(r)];
    bool grad_mode = true;
    for (size_t i = 0; i < assembly_.instructions.size(); ++i) {
      Instruction& instruction = assembly_.instructions[i];
      if (instruction.kind == Instruction::Mode) grad_mode = mode_of(instruction).on;
      // Without grad mode, an overwritten tensor keeps its node.
      if (grad_mode && instruction.call && may_be_functional(*instruction.call)) rewrite(i);
      each_write(instruction, [&](Register r) { ++made_[group_of(r)]; });
    }
  }

 private:
  /// Replaces the instruction; its first argument and its result then stand for one tensor of the program.
  void rewrite(size_t i) {
    OperatorCall& call = *assembly_.instructions[i].call;
    const Register before = call.arguments[0].registers[0];
    const c10::OperatorName& name = call.op.operator_name();
    const auto op =
        c10::Dispatcher::singleton().findSchema({name.name.substr(0, name.name.size() - 1), name.overload_name});
    if (!op || op->schema().arguments().size() != call.arguments.size()) return;
    const Register made = recorder_.another(before);
    groups_[made] = group_of(before);
    --made_[group_of(before)];
    call.op = *op;
    call.overwrites = true;
    call.results = {{OperatorResult::Tensor, {made}}};
    auto rename = [&](Register& r) { r = r == before ? made : r; };
    for (size_t j = i + 1; j < assembly_.instructions.size(); ++j) rename_registers(assembly_.instructions[j], rename);
    rename_registers(assembly_.output, rename);
  }

  /// The register's group: those that share memory in the program.
  Register group_of(Register r) const {
    const auto found = groups_.find(r);
    return found == groups_.end() ? aliases_.group(r) : found->second;
  }

  static std::unordered_set<Register> inputs(const Assembly& assembly) {
    std::unordered_set<Register> found;
    for (const Place& input : assembly.inputs) each_register(input, [&](Register r) { found.insert(r); });
    return found;
  }

  bool may_be_functional(const OperatorCall& call) const {
    if (!has_both_forms(call.op.operator_name().name)) return false;
    if (call.arguments[0].kind != OperatorArgument::Tensor || call.results.size() != 1) return false;
    const Register self = call.arguments[0].registers[0];
    const Seen& seen = recorder_.seen(self);
    const bool inner = !inputs_.contains(self) && !is_constant(self) && seen.plain && !seen.data_shaped;
    return inner && c10::isFloatingType(seen.dtype()) && is_contiguous(seen) && is_alone(self) &&
           std::ranges::all_of(call.arguments, [&](const OperatorArgument& argument) {
             return std::ranges::all_of(argument.registers, [&](Register r) { return has_type_of(seen, r); });
           });
  }

  /// True if no other tensor uses its memory yet.
  bool is_alone(Register r) const {
    const auto found = made_.find(group_of(r));
    return found != made_.end() && found->second == 1;
  }

  bool is_constant(Register r) const {
    return std::ranges::find(recorder_.constants(), r, &std::pair<Register, at::Tensor>::first) !=
           recorder_.constants().end();
  }

  /// True if this operand does not promote the result to another type than `self`'s.
  bool has_type_of(const Seen& self, Register r) const {
    if (r == kNone || recorder_.seen(r).dtype() == self.dtype()) return true;
    return is_constant(r) && !c10::isComplexType(recorder_.seen(r).dtype()) && recorder_.seen(r).sizes().empty();
  }

  Assembly& assembly_;
  Recorder& recorder_;
  const Aliases aliases_;
  const std::unordered_set<Register> inputs_;
  std::unordered_map<Register, Register> groups_;  // of registers made here
  std::unordered_map<Register, int> made_;         // number of tensors of the group so far
};

}  // namespace

bool formula_saves_result(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string_view> others = {
      "aten::add", "aten::sub",   "aten::mul",       "aten::div",
      "aten::neg", "aten::clamp", "aten::clamp_min", "aten::clamp_max",
  };
  return !others.contains(op.operator_name().name);
}

void make_functional(Assembly& assembly, Recorder& recorder) { Rewriter(assembly, recorder).run(); }

}  // namespace gramme::native
