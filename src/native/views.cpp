#include "native/views.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "native/registers.h"

namespace gramme::native {
namespace {

void run_view(const Instruction& instruction, Run& run) {
  const View& view = view_of(instruction);
  const at::Tensor& source = *run.tensors[view.source];
  c10::TensorImpl* from = source.unsafeGetTensorImpl();
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(from->unsafe_storage()),
                                                   from->key_set(), from->dtype());
  impl->set_sizes_and_strides(view.sizes, view.strides, from->storage_offset() + view.offset);
  run.own[view.target] = at::Tensor(std::move(impl));
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

}  // namespace

const View& view_of(const Instruction& instruction) { return static_cast<const View&>(*instruction.bound); }

std::vector<Instruction> as_views(const Instruction& instruction, const Recorder& recorder, const Aliases& aliases) {
  if (!instruction.call || !is_view(*instruction.call)) return {};
  const Register source = source_of(*instruction.call);
  if (source == kNone) return {};
  const Seen& from = recorder.seen(source);
  if (!from.plain || from.data_shaped) return {};
  std::vector<Instruction> views;
  for (Register target : instruction.call->results[0].registers) {
    if (target == kNone || aliases.observed(target)) return {};
    const Seen& to = recorder.seen(target);
    if (!to.plain || to.data_shaped || to.storage != from.storage || to.dtype != from.dtype) return {};
    auto view = std::make_unique<View>();
    view->source = source;
    view->target = target;
    view->sizes = to.sizes;
    view->strides = to.strides;
    view->offset = to.offset - from.offset;
    Instruction& made = views.emplace_back();
    made.kind = Instruction::View;
    made.step = instruction.step;
    made.bound = std::move(view);
    made.invoke = run_view;
  }
  return views;
}

void collapse_views(std::vector<Instruction>& instructions, const std::vector<Register>& wanted) {
  std::unordered_map<Register, const View*> made;
  for (Instruction& instruction : instructions) {
    if (instruction.kind != Instruction::View) continue;
    auto& view = static_cast<View&>(*instruction.bound);
    if (auto below = made.find(view.source); below != made.end()) {
      view.source = below->second->source;
      view.offset += below->second->offset;
    }
    made.emplace(view.target, &view);
  }
  std::unordered_set<Register> read(wanted.begin(), wanted.end());
  for (const Instruction& instruction : instructions) each_read(instruction, [&](Register r) { read.insert(r); });
  std::erase_if(instructions, [&](const Instruction& instruction) {
    return instruction.kind == Instruction::View && !read.count(view_of(instruction).target);
  });
}

}  // namespace gramme::native
