#include "native/views.h"

#include <algorithm>

#include "native/registers.h"

namespace gramme::native {
namespace {

void run_view(const Instruction& instruction, Run& run) {
  const View& view = view_of(instruction);
  run.own[view.target] = make_view(*run.tensors[view.source], view.sizes, view.strides, view.offset);
}

Register source_of(const OperatorCall& call) {
  for (const OperatorArgument& argument : call.arguments)
    if (argument.kind == OperatorArgument::Tensor) return argument.registers[0];
  return kNone;
}

bool is_view(const OperatorCall& call) {
  const auto& returns = call.op.schema().returns();
  if (returns.size() != 1 || call.results.size() != 1) return false;
  const auto* alias = returns[0].alias_info();
  const bool list = call.results[0].kind == OperatorResult::Tensors;
  return list || (alias && !alias->isWrite());
}

/// Appends the views that the instruction may become. False, and nothing appended, if it stays what it is.
bool append_views(const Instruction& instruction, const Recorder& recorder, const Aliases& aliases,
                  std::vector<Instruction>& all) {
  if (!instruction.call || !is_view(*instruction.call)) return false;
  const Register source = source_of(*instruction.call);
  if (source == kNone) return false;
  const Seen& from = recorder.seen(source);
  if (!from.plain || from.data_shaped) return false;
  const std::vector<Register>& targets = instruction.call->results[0].registers;
  auto can_be_view = [&](Register target) {
    if (target == kNone || aliases.observed(target)) return false;
    const Seen& to = recorder.seen(target);
    return to.plain && !to.data_shaped && to.storage == from.storage && to.dtype == from.dtype;
  };
  if (!std::all_of(targets.begin(), targets.end(), can_be_view)) return false;
  for (Register target : targets) {
    const Seen& to = recorder.seen(target);
    auto view = std::make_unique<View>();
    view->source = source;
    view->target = target;
    view->sizes = to.sizes;
    view->strides = to.strides;
    view->offset = to.offset - from.offset;
    Instruction& made = all.emplace_back();
    made.kind = Instruction::View;
    made.step = instruction.step;
    made.bound = std::move(view);
    made.invoke = run_view;
  }
  return !targets.empty();
}

}  // namespace

at::Tensor make_view(const at::Tensor& source, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset) {
  c10::TensorImpl* from = source.unsafeGetTensorImpl();
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(from->unsafe_storage()),
                                                   from->key_set(), from->dtype());
  impl->set_sizes_and_strides(sizes, strides, from->storage_offset() + offset);
  return at::Tensor(std::move(impl));
}

const View& view_of(const Instruction& instruction) { return static_cast<const View&>(*instruction.bound); }

std::vector<Instruction> with_views(std::vector<Instruction> instructions, const Recorder& recorder,
                                    const Aliases& aliases) {
  std::vector<Instruction> all;
  all.reserve(instructions.size());
  for (Instruction& instruction : instructions)
    if (!append_views(instruction, recorder, aliases, all)) all.push_back(std::move(instruction));
  return all;
}

void collapse_views(std::vector<Instruction>& instructions, std::vector<bool> read) {
  std::vector<const View*> made(read.size());
  for (Instruction& instruction : instructions) {
    if (instruction.kind != Instruction::View) continue;
    auto& view = static_cast<View&>(*instruction.bound);
    if (const View* below = made[static_cast<size_t>(view.source)]) {
      view.source = below->source;
      view.offset += below->offset;
    }
    made[static_cast<size_t>(view.target)] = &view;
  }
  for (const Instruction& instruction : instructions)
    each_read(instruction, [&](Register r) { read[static_cast<size_t>(r)] = true; });
  std::erase_if(instructions, [&](const Instruction& instruction) {
    return instruction.kind == Instruction::View && !read[static_cast<size_t>(view_of(instruction).target)];
  });
}

}  // namespace gramme::native
