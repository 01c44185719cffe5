// Converts observed calls to a tape, and runs it.
#include "training/converted.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "passes/assemble.h"
#include "record/parts.h"
#include "tape/composites.h"
#include "tape/invoke.h"
#include "tape/registers.h"
#include "torch/calls.h"

namespace gramme::native {
namespace {

/// Converts observed calls to instructions.
class Conversion {
 public:
  Conversion(const Recorder& recorder, Origins origins) : recorder_(recorder), origins_(std::move(origins)) {}

  /// Converts all calls; returns why they cannot be repeated, or an empty text. `leaving`: the registers of the
  /// gradients.
  std::string run(const std::vector<Observed>& observed, const std::vector<Register>& leaving) {
    for (const auto& [r, tensor] : recorder_.constants()) known_.insert(r);
    for (const Observed& record : observed)
      if (std::string why = add(record); !why.empty()) return why;
    drop_unread(leaving);
    for (const Instruction& instruction : instructions_) each_read(instruction, [this](Register r) { need(r); });
    for (Register r : leaving)
      if (r != kNone) need(r);
    return fits_ ? "" : "it reads what was made before";
  }

  Assembly assembly(const std::vector<Register>& leaving) {
    // no Python: an empty program
    auto program = std::make_shared<Program>();
    program->inputs = static_cast<int32_t>(inputs_.size());
    program->output.kind = Operand::Tuple;
    std::vector<Place> inputs;
    for (Register r : inputs_) inputs.push_back({Place::Tensor, r, {}, {}});
    Assembly assembly{std::move(program),
                      std::move(instructions_),
                      std::move(inputs),
                      {Place::Sequence, 0, {}, {}},
                      recorder_,
                      0,
                      0,
                      true};
    assembly.kept = leaving;
    assembly.shown = shared_with_inputs(leaving);
    assembly.counts_inside = false;
    assembly.drops_inputs = true;
    return assembly;
  }

  std::vector<BackwardSource> take_sources() { return std::move(sources_); }

 private:
  /// Converts one call, a composite to what it called; returns why not, or an empty text.
  std::string add(const Observed& record, bool inside = false) {
    const bool makes = std::ranges::any_of(
        record.call.results, [](const OperatorResult& result) { return result.kind != OperatorResult::Dropped; });
    if (origins_.local && is(record, of_torch::Wraps)) return {};
    if (!record.data_shaped && record.written.empty() && !makes && (record.gives_back || (inside && record.only_tells)))
      return {};
    if (!record.data_shaped && is_composite(record.call.op) && !record.parts.empty() &&
        is_only_its_parts(record, recorder_)) {
      for (const Observed& part : record.parts)
        if (std::string why = add(part, true); !why.empty()) return why;
      return {};
    }
    if (const char* why = why_not(record)) return record.call.op.operator_name().name + ": " + why;
    Instruction& instruction = instructions_.emplace_back();
    instruction.call = std::make_unique<OperatorCall>(record.call);
    each_write(instruction, [this](Register r) { made_.insert(r); });
    return {};
  }

  /// Why the call cannot be repeated on other tensors; null if it can.
  const char* why_not(const Observed& record) const {
    if (record.data_shaped) return "data decides";
    if (origins_.local ? record.differentiates : record.grad_mode) return "the grad mode is on";
    if (record.unusable) return record.unusable;
    if (record.only_tells) return "its result is not a tensor";
    const bool known = is_known_of_library(record.call.op) || (origins_.local && is(record, of_torch::Collective));
    if (record.call.op.operator_name().getNamespace() != "aten" && !known) return "it is not PyTorch's";
    if (record.call.op.hasTag(at::Tag::nondeterministic_seeded)) return "it draws random numbers";
    for (Register r : record.written)
      if (!made_.contains(r)) return "it writes what was there before";
    return nullptr;
  }

  static bool is(const Observed& record, of_torch::OperatorTrait trait) {
    const c10::OperatorName& name = record.call.op.operator_name();
    return of_torch::is_operator(name.name, name.overload_name, trait);
  }

  /// Drops operators whose results are not read, unless they write to something, or processes communicate.
  void drop_unread(const std::vector<Register>& leaving) {
    std::unordered_set<Register> read(leaving.begin(), leaving.end());
    for (size_t i = instructions_.size(); i-- > 0;) {
      Instruction& instruction = instructions_[i];
      bool wanted = std::ranges::any_of(instruction.call->op.schema().arguments(), [](const c10::Argument& argument) {
        return argument.alias_info() && argument.alias_info()->isWrite();
      });
      wanted |= instruction.call->op.operator_name().getNamespace() != "aten" && origins_.local;
      each_write(instruction, [&](Register r) { wanted |= read.contains(r); });
      if (!wanted) instruction.call.reset();
      each_read(instruction, [&](Register r) { read.insert(r); });
    }
    std::erase_if(instructions_, [](const Instruction& instruction) { return !instruction.call; });
  }

  void need(Register r) {
    if (made_.contains(r) || known_.contains(r)) return;
    known_.insert(r);
    const auto slot = std::ranges::find(origins_.slots, r);
    const auto forward = origins_.kept.find(r);
    if (slot != origins_.slots.end())
      sources_.push_back({BackwardSource::Slot, static_cast<int32_t>(slot - origins_.slots.begin())});
    else if (forward != origins_.kept.end())
      sources_.push_back({BackwardSource::Kept, forward->second});
    else
      fits_ = false;
    inputs_.push_back(r);
  }

  std::vector<Register> shared_with_inputs(const std::vector<Register>& leaving) const {
    std::unordered_set<const c10::StorageImpl*> storages;
    for (Register r : inputs_) storages.insert(recorder_.seen(r).storage);
    std::vector<Register> shared;
    for (Register r : leaving)
      if (r != kNone && storages.contains(recorder_.seen(r).storage)) shared.push_back(r);
    return shared;
  }

  const Recorder& recorder_;
  const Origins origins_;
  std::unordered_set<Register> made_, known_;
  std::vector<Instruction> instructions_;
  std::vector<Register> inputs_;
  std::vector<BackwardSource> sources_;
  bool fits_ = true;
};

/// Registers of a tape that share memory.
class Memory {
 public:
  explicit Memory(const Tape& tape) : parent_(static_cast<size_t>(tape.registers)) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (const Instruction& instruction : tape.instructions)
      if (may_make_view(instruction))
        each_write(instruction, [&](Register made) {
          each_read(instruction, [&](Register of) { parent_[static_cast<size_t>(root(made))] = root(of); });
        });
  }
  /// The representative of all registers that share memory.
  Register root(Register r) const {
    while (parent_[static_cast<size_t>(r)] != r) r = parent_[static_cast<size_t>(r)];
    return r;
  }

 private:
  static bool may_make_view(const Instruction& instruction) {
    return !instruction.call || is_composite(instruction.call->op) ||
           std::ranges::any_of(instruction.call->op.schema().returns(),
                               [](const c10::Argument& made) { return made.alias_info() != nullptr; });
  }

  std::vector<Register> parent_;
};

}  // namespace

std::optional<ConvertedTape::Parts> ConvertedTape::convert(const Recorder& recorder,
                                                           const std::vector<Observed>& observed, Origins origins,
                                                           const std::vector<Register>& leaving, std::string& why) {
  Conversion conversion(recorder, std::move(origins));
  why = conversion.run(observed, leaving);
  if (!why.empty()) return std::nullopt;
  std::unique_ptr<const Tape> tape = assemble(conversion.assembly(leaving));
  return Parts{conversion.take_sources(), std::move(tape)};
}

void ConvertedTape::find_ends() {
  const Memory memory(*tape_);
  std::unordered_map<Register, size_t> last, last_write;
  for (size_t i = 0; i < tape_->instructions.size(); ++i) {
    auto note = [&](Register r) { last[r] = i + 1; };
    each_read(tape_->instructions[i], note);
    each_write(tape_->instructions[i], note);
    if (tape_->instructions[i].call)
      each_declared_write(*tape_->instructions[i].call, [&](Register r) { last_write[memory.root(r)] = i + 1; });
  }
  for (size_t use = 0; use < tape_->kept.size(); ++use) {
    const Register r = tape_->kept[use];
    if (r != kNone) ends_.push_back({std::max(last[r], last_write[memory.root(r)]), use, false});
  }
  std::ranges::stable_sort(ends_, {}, &End::instructions);
  std::unordered_set<Register> moved;
  for (size_t e = ends_.size(); e-- > 0;) ends_[e].moves = moved.insert(tape_->kept[ends_[e].use]).second;
}

std::vector<at::Tensor> ConvertedTape::run(std::vector<at::Tensor>&& given, const std::vector<bool>& taken,
                                           const Taker& take) const {
  std::unique_ptr<Frame> frame = frames_.take(*tape_);
  for (size_t i = 0; i < given.size(); ++i) frame->own[i] = std::move(given[i]);  // inputs occupy the first registers
  Run run = frame->run();
  run.below_autograd = unwatched();
  std::optional<BelowAutograd> below;
  if (run.below_autograd) below.emplace(*tape_);
  std::vector<at::Tensor> found(tape_->kept.size());
  size_t at = 0, done = 0;  // on an exception the frame is dropped
  for (const auto [end, use, moves] : ends_) {
    tape_->run(run, &at, done, end);
    done = end;
    at::Tensor gradient = *run.tensors[tape_->kept[use]];
    if (moves) run.own[tape_->kept[use]].reset();
    taken.empty() || !taken[use] ? void(found[use] = std::move(gradient)) : take(use, std::move(gradient));
  }
  tape_->run(run, &at, done, tape_->instructions.size());
  for (at::Tensor& tensor : frame->own) tensor.reset();
  frames_.give_back(std::move(frame));
  return found;
}

}  // namespace gramme::native
