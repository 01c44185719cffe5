// Union-find over registers: joins those that share memory by storage or by an operator's schema.
#include "passes/aliases.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "tape/registers.h"

namespace gramme::native {

Aliases::Aliases(const Assembly& assembly) {
  const auto count = static_cast<size_t>(assembly.recorder.registers());
  group_.resize(count);
  std::iota(group_.begin(), group_.end(), 0);
  is_view_.assign(count, false);
  observed_.assign(count, false);
  join_inputs(assembly);
  for (const Instruction& instruction : assembly.instructions) join_results(instruction, assembly.recorder);
  std::vector<bool> leaves(count, assembly.counts_inside);
  auto note_group = [&](Register r) {
    if (r != kNone) leaves[static_cast<size_t>(root(r))] = true;
  };
  for (const Place& input : assembly.inputs) each_register(input, note_group);
  each_register(assembly.output, note_group);
  std::ranges::for_each(assembly.kept, note_group);
  for (const Instruction& instruction : assembly.instructions) mark_written(instruction, leaves);
  each_register(assembly.output, [this](Register r) {
    if (is_view_[static_cast<size_t>(r)]) mark(r);
  });
  for (Register r : assembly.shown) mark(r);
}

Register Aliases::root(Register r) const {
  while (group_[static_cast<size_t>(r)] != r) r = group_[static_cast<size_t>(r)];
  return r;
}

void Aliases::join_inputs(const Assembly& assembly) {
  std::unordered_map<const c10::StorageImpl*, Register> first;
  for (const Place& input : assembly.inputs) {
    each_register(input, [&](Register r) {
      const c10::StorageImpl* storage = assembly.recorder.seen(r).storage;
      if (storage) join(r, first.emplace(storage, r).first->second);
    });
  }
}

void Aliases::join_results(const Instruction& instruction, const Recorder& recorder) {
  if (instruction.kind == Instruction::View) {
    join(view_of(instruction).target, view_of(instruction).source);
    is_view_[static_cast<size_t>(view_of(instruction).target)] = true;
  }
  if (!instruction.call) return;
  bool told = false;  // the schema declares that results share memory
  for (const c10::Argument& result : instruction.call->op.schema().returns()) told |= result.alias_info() != nullptr;
  each_write(instruction, [&](Register made) {
    const Seen& to = recorder.seen(made);
    each_read(instruction, [&](Register read) {
      const Seen& from = recorder.seen(read);
      const bool known = to.plain && from.plain;
      const bool varies = to.data_shaped || from.data_shaped;  // a view of one size, a copy of another
      const bool shares = (known && to.storage == from.storage) || (told && (!known || varies));
      if (!shares) return;
      join(made, read);
      is_view_[static_cast<size_t>(made)] = true;
    });
  });
}

/// `leaves`, by root: whether a register of the group leaves the tape.
void Aliases::mark_written(const Instruction& instruction, const std::vector<bool>& leaves) {
  auto note = [&](Register r) {
    if (leaves[static_cast<size_t>(root(r))]) mark(r);
  };
  if (instruction.kind == Instruction::Python) {
    each_read(instruction, note);
    each_write(instruction, note);
  }
  if (!instruction.call) return;
  const auto& declared = instruction.call->op.schema().arguments();
  for (size_t i = 0; i < declared.size(); ++i) {
    if (!declared[i].alias_info() || !declared[i].alias_info()->isWrite()) continue;
    for (Register r : instruction.call->arguments[i].registers)
      if (r != kNone) note(r);
  }
}

}  // namespace gramme::native
