// The passes from a recording to a tape: views, fusing, composites and prepared calls, choice of kernels, numbering of
// registers, frees after last uses.
#include "passes/assemble.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>

#include <algorithm>

#include "passes/attention.h"
#include "passes/fuse.h"
#include "passes/linear.h"
#include "passes/numbers.h"
#include "passes/views.h"
#include "tape/composites.h"
#include "tape/invoke.h"
#include "tape/large_memory.h"
#include "tape/python_call.h"
#include "tape/registers.h"

namespace gramme::native {

c10::DispatchKeySet plain_keys() {
  static const c10::DispatchKeySet keys = [] {  // no Python: an allocation
    const c10::InferenceMode off(false);        // independent of the mode in which the first tape is made
    return at::detail::empty_cpu({0}, c10::kFloat).key_set();
  }();
  return keys;
}

namespace {

/// Tapes with a tensor of this many elements, or this many instructions, release the GIL.
constexpr int64_t kLargeTensor = 16384;
constexpr size_t kManyInstructions = 8;

bool has_kernel(const c10::OperatorHandle& op, c10::DispatchKey key) {
  return op.hasKernelForDispatchKey(key) && !op.isKernelFallthroughKernel(key);
}

bool writes(const c10::OperatorHandle& op) {
  return std::ranges::any_of(op.schema().arguments(), [](const c10::Argument& argument) {
    return argument.alias_info() && argument.alias_info()->isWrite();
  });
}

/// True if the instruction needs no autograd kernel anywhere in the tape.
bool is_direct(const Instruction& instruction) {
  if (instruction.kind == Instruction::View) return !view_of(instruction).by_operators;
  return instruction.kind == Instruction::Number || instruction.kind == Instruction::Fused || !instruction.keys.empty();
}

/// True for operators outside ATen, which may run Python code.
bool is_foreign(const Instruction& instruction) {
  return instruction.call && instruction.call->op.operator_name().getNamespace() != "aten";
}

class Assembler {
 public:
  explicit Assembler(Assembly assembly) : given_(std::move(assembly)), tape_(std::make_unique<Tape>()) {}

  std::unique_ptr<Tape> run() {
    tape_->program = given_.program;
    tape_->objects = given_.objects;
    tape_->modes = given_.modes;
    place_numbers();
    tape_->below_autograd = tape_->all_direct = given_.below_autograd;
    tape_->inference = given_.inference;
    place_ends();
    find_returned();
    const Aliases aliases(given_);
    keep_hidden_linears(aliases);
    if (tape_->below_autograd) {
      replace_views(aliases);
      converted_ = converted_numbers(given_);
      for (Instruction& instruction : given_.instructions) choose_keys(instruction, aliases);
      if (given_.fuses) given_.instructions = with_fused(std::move(given_.instructions), given_.recorder, returned_);
    }
    renumber();
    tape_->instructions = std::move(given_.instructions);
    for (Instruction& instruction : tape_->instructions) {
      if (instruction.kind == Instruction::Operator) bind(instruction);
      if (instruction.kind == Instruction::Fused) bind_parts(instruction);
      if (instruction.kind == Instruction::View) remember_steps(instruction, tape_->remembered);
      instruction.below_autograd = instruction.call && instruction.call->below_autograd;
      tape_->has_python |= instruction.kind == Instruction::Python || is_foreign(instruction);
      tape_->has_modes |= instruction.kind == Instruction::Mode;
      tape_->all_direct &= is_direct(instruction);
    }
    free_after_last_use();
    tape_->releases_gil = runs_long();
    tape_->has_large = has_large();
    tape_->verify();
    return std::move(tape_);
  }

 private:
  void bind(Instruction& instruction) {
    if (is_prepared_linear(instruction)) return;
    bind_operator(instruction);
    bind_attention(instruction, tape_->remembered);
  }

  void bind_parts(Instruction& fused) {
    for (Instruction& part : fused_of(fused).parts) {
      if (part.kind == Instruction::Operator) bind(part);
      part.below_autograd = part.call && part.call->below_autograd;
    }
  }

  void place_numbers() {
    const Numbers& numbers = given_.recorder.numbers();
    const shape::Program& program = numbers.program();
    tape_->numbers = program.registers();
    for (shape::Register r = 0; r < program.register_count(); ++r) tape_->expressions.push_back(program.expression(r));
    for (const shape::Instruction& instruction : program.code())
      if (!numbers.waits(instruction)) tape_->at_start.push_back(instruction);
  }

  void place_ends() {
    tape_->inputs = given_.inputs;
    tape_->output.push_back(given_.output);
    tape_->kept = given_.kept;
    tape_->drops_inputs = given_.drops_inputs;
    tape_->casts = given_.casts;
    tape_->has_casts = given_.has_casts;
  }

  void find_returned() {
    returned_.resize(static_cast<size_t>(given_.recorder.registers()));
    each_left(*tape_, [this](Register r) { returned_[static_cast<size_t>(r)] = true; });
  }

  void replace_views(const Aliases& aliases) {
    given_.instructions = with_views(std::move(given_.instructions), given_.recorder, aliases);
    collapse_views(given_.instructions, returned_);
  }

  /// Calls a linear layer as PyTorch does if its result can be observed.
  void keep_hidden_linears(const Aliases& aliases) {
    for (Instruction& instruction : given_.instructions)
      if (is_prepared_linear(instruction) && !may_be_one_call(instruction, aliases)) instruction.invoke = nullptr;
  }

  bool may_be_one_call(const Instruction& linear, const Aliases& aliases) const {
    return is_hidden(linear, aliases) ||
           (makes_no_view(linear) && !aliases.observed(linear.call->results[0].registers[0]));
  }

  /// True if the results, and what they are views of, cannot be observed from outside.
  bool is_hidden(const Instruction& instruction, const Aliases& aliases) const {
    bool hidden = true;
    each_write(instruction, [&](Register r) { hidden &= !returned_[static_cast<size_t>(r)] && !aliases.observed(r); });
    return hidden;
  }

  /// Chooses the dispatch keys for calling the CPU kernel directly, through the kernel for version counters and views
  /// if there is one. For a composite the operators it calls do that, so its results must not be observable.
  void choose_keys(Instruction& instruction, const Aliases& aliases) {
    if (!instruction.call) return;
    bool plain = true;
    each_read(instruction, [&](Register r) { plain &= may_go_to_kernel(r); });
    each_write(instruction, [&](Register r) { plain &= may_go_to_kernel(r); });
    const c10::OperatorHandle& op = instruction.call->op;
    if (!plain || !op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) return;
    if (!given_.inference && takes_only_inference(instruction)) return;
    const bool may_be_below =
        !is_composite(op) || is_prepared_linear(instruction) || (!writes(op) && is_hidden(instruction, aliases));
    if (!may_be_below || op.operator_name().getNamespace() != "aten") return;
    const bool counts = has_kernel(op, c10::DispatchKey::ADInplaceOrView);
    if (counts && given_.inference) return;  // the dispatcher knows which tensors it is for
    instruction.keys = c10::DispatchKeySet(c10::DispatchKey::CPU);
    if (counts) instruction.keys = instruction.keys.add(c10::DispatchKey::ADInplaceOrView);
  }

  /// True if eager skips autograd's kernel. That kernel would keep calls inside the operator from making views and from
  /// counting versions, as direct calls do.
  bool takes_only_inference(const Instruction& instruction) const {
    bool any = false, inference = true;
    each_read(instruction, [&](Register r) {
      any = true;
      inference &= !given_.recorder.seen(r).keys.has_any(c10::autograd_dispatch_keyset);
    });
    return any && inference;
  }

  bool may_go_to_kernel(Register r) const {
    const Seen& seen = given_.recorder.seen(r);
    const bool undefined = seen.keys.empty();
    return undefined || (seen.plain && plain_keys().isSupersetOf(seen.keys));
  }

  /// Renumbers registers: inputs keep their numbers, constants follow, unused ones disappear.
  void renumber() {
    const Recorder& recorder = given_.recorder;
    std::vector<Register> number(static_cast<size_t>(recorder.registers()), kNone);
    Register next = 0;
    for (const Place& input : tape_->inputs)
      each_register(input, [&](Register r) { number[static_cast<size_t>(r)] = next++; });
    std::vector<bool> used(number.size(), false);
    for (const Instruction& instruction : given_.instructions) {
      auto use = [&](Register r) { used[static_cast<size_t>(r)] = true; };
      each_read(instruction, use);
      each_write(instruction, use);
    }
    for (const auto& [r, tensor] : recorder.constants()) {
      if (!used[static_cast<size_t>(r)]) continue;
      number[static_cast<size_t>(r)] = next;
      auto converted = converted_.find(r);
      tape_->constants.emplace_back(next++, converted == converted_.end() ? tensor : converted->second);
    }
    tape_->first_temporary = next;
    for (size_t r = 0; r < number.size(); ++r)
      if (used[r] && number[r] == kNone) number[r] = next++;
    tape_->registers = next;
    auto rename = [&](Register& r) { r = number[static_cast<size_t>(r)]; };
    for (Instruction& instruction : given_.instructions) rename_registers(instruction, rename);
    for (Place& place : tape_->inputs) rename_registers(place, rename);
    rename_registers(tape_->output[0], rename);
    rename_registers(tape_->kept, rename);
  }

  /// Lets the output take each temporary from its register at its last occurrence.
  void take_out(Place& place, std::vector<bool>& taken) const {
    for (size_t i = place.items.size(); i-- > 0;) take_out(place.items[i], taken);
    if (place.kind != Place::Tensor || place.index < tape_->first_temporary) return;
    place.last = !taken[static_cast<size_t>(place.index)];
    taken[static_cast<size_t>(place.index)] = true;
  }

  void free_after_last_use() {
    std::vector<bool> wanted(static_cast<size_t>(tape_->registers), false);
    take_out(tape_->output[0], wanted);
    for (Register r : tape_->kept)
      if (r != kNone) wanted[static_cast<size_t>(r)] = true;
    for (size_t i = tape_->instructions.size(); i-- > 0;) {
      Instruction& instruction = tape_->instructions[i];
      auto use = [&](Register r) {
        if (!tape_->is_freed(r) || wanted[static_cast<size_t>(r)]) return;
        wanted[static_cast<size_t>(r)] = true;
        instruction.frees.push_back(r);
      };
      each_read(instruction, use);
      each_write(instruction, use);
    }
  }

  bool runs_long() const {
    if (tape_->instructions.size() >= kManyInstructions || given_.recorder.any_sizes()) return true;
    for (Register r = 0; r < given_.recorder.registers(); ++r)
      if (c10::multiply_integers(given_.recorder.seen(r).sizes()) >= kLargeTensor) return true;
    return false;
  }

  bool has_large() const {
    for (Register r = 0; r < given_.recorder.registers(); ++r) {
      const Seen& seen = given_.recorder.seen(r);
      if (!seen.plain) continue;
      const auto bytes = static_cast<size_t>(c10::multiply_integers(seen.sizes())) * c10::elementSize(seen.dtype());
      if (bytes >= kLargeBlock) return true;
    }
    return false;
  }

  Assembly given_;
  std::unique_ptr<Tape> tape_;
  std::vector<bool> returned_;  // by register
  std::unordered_map<Register, at::Tensor> converted_;
};

}  // namespace

std::unique_ptr<Tape> assemble(Assembly assembly) { return Assembler(std::move(assembly)).run(); }

}  // namespace gramme::native
