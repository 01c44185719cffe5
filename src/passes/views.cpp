// Replaces recorded view operators by View instructions, and carries these out.
#include "passes/views.h"

#include <algorithm>

#include "tape/geometry.h"
#include "tape/registers.h"

namespace gramme::native {
namespace {

at::Tensor by_operators(const View& view, const Run& run) {
  at::Tensor made = *run.tensors[view.source];
  for (const ViewStep& step : view.steps) made = call(step, run, made);
  return made;
}

void run_view(const Instruction& instruction, Run& run) {
  const View& view = view_of(instruction);
  run.own[view.target] = make_view(*run.tensors[view.source], view.sizes, view.strides, view.offset);
}

void run_operators(const Instruction& instruction, Run& run) {
  const View& view = view_of(instruction);
  run.own[view.target] = by_operators(view, run);
}

bool is_as_before(const Remembered& before, const View& view, const at::Tensor& source, const Run& run) {
  const int64_t* at = before.of.data();
  if (!before.known || !before.has(source, &at)) return false;
  return std::ranges::all_of(view.numbers, [&](NumberId number) { return run.numbers[number] == *at++; });
}

/// Computes the geometry of all steps; false if one would copy or raise.
bool carry_out(const View& view, const at::Tensor& source, const Run& run, Remembered& result) {
  result.known = false;
  result.of.clear();
  result.note(source);
  for (NumberId number : view.numbers) result.of.push_back(run.numbers[number]);
  result.made.sizes = source.sizes();
  result.made.strides = source.strides();
  result.made.offset = 0;
  result.known = std::ranges::all_of(view.steps, [&](const ViewStep& step) { return apply(step, run, result.made); });
  return result.known;
}

/// Runs a view's steps; calls the operators if a step would copy or raise.
void run_steps(const Instruction& instruction, Run& run) {
  const View& view = view_of(instruction);
  const at::Tensor& source = *run.tensors[view.source];
  Remembered& before = run.remembered[view.remembered];
  const bool is_view = is_as_before(before, view, source, run) || carry_out(view, source, run, before);
  const Geometry& made = before.made;
  run.own[view.target] = is_view ? make_view(source, made.sizes, made.strides, made.offset) : by_operators(view, run);
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

Instruction& append_view(std::vector<Instruction>& all, uint32_t step, std::unique_ptr<View> view, Invoke invoke) {
  Instruction& made = all.emplace_back();
  made.kind = Instruction::View;
  made.step = step;
  made.bound = std::move(view);
  made.invoke = invoke;
  return made;
}

/// Decides which calls may become views.
class Views {
 public:
  Views(const Recorder& recorder, const Aliases& aliases) : recorder_(recorder), aliases_(aliases) {}

  /// Appends the views that replace the instruction; false, without effect, if it must stay.
  bool append(const Instruction& instruction, std::vector<Instruction>& all) const {
    if (!instruction.call || !is_view(*instruction.call)) return false;
    const Register source = source_of(*instruction.call);
    if (source == kNone || !recorder_.seen(source).plain) return false;
    const std::vector<Register>& targets = instruction.call->results[0].registers;
    const bool fixed = !recorder_.seen(source).data_shaped && std::ranges::none_of(targets, [&](Register target) {
      return target == kNone || recorder_.seen(target).data_shaped;
    });
    std::vector<std::unique_ptr<View>> views;
    for (size_t i = 0; i < targets.size(); ++i) {
      if (!may_be_view(source, targets[i])) return false;
      views.push_back(fixed ? fixed_view(source, targets[i]) : computed_view(*instruction.call, source, i));
      if (!views.back()) return false;
    }
    for (std::unique_ptr<View>& view : views)
      append_view(all, instruction.step, std::move(view), fixed ? run_view : run_steps);
    return !targets.empty();
  }

  /// True if a view by operators may be made directly.
  bool may_be_made_at_once(const View& view) const { return may_be_view(view.source, view.target); }

 private:
  bool may_be_view(Register source, Register target) const {
    if (target == kNone || aliases_.observed(target)) return false;
    const Seen &from = recorder_.seen(source), &to = recorder_.seen(target);
    return from.plain && to.plain && to.dtype() == from.dtype() && (to.storage == from.storage || to.data_shaped);
  }

  std::unique_ptr<View> fixed_view(Register source, Register target) const {
    const Seen &from = recorder_.seen(source), &to = recorder_.seen(target);
    if (to.storage != from.storage) return nullptr;
    auto view = std::make_unique<View>();
    view->source = source;
    view->target = target;
    view->sizes = to.sizes();
    view->strides = to.strides();
    view->offset = to.offset() - from.offset();
    return view;
  }

  static std::unique_ptr<View> computed_view(const OperatorCall& call, Register source, size_t result) {
    std::optional<ViewStep> step = view_step(call, result);
    if (!step) return nullptr;
    auto view = std::make_unique<View>();
    view->source = source;
    view->target = call.results[0].registers[result];
    view->steps.push_back(std::move(*step));
    return view;
  }

  const Recorder& recorder_;
  const Aliases& aliases_;
};

/// The number of storage elements that a tensor of this geometry needs.
int64_t reach(at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset) {
  int64_t last = offset;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return last + 1;
}

/// Raises for a view that would reach past the storage, which may have been emptied, although its source does not.
[[gnu::cold]] void refuse_reach(const c10::TensorImpl& source, int64_t wanted) {
  TORCH_CHECK(wanted <= reach(source.sizes(), source.strides(), source.storage_offset()), "gramme: a view of ", wanted,
              " elements from the start of its storage, which has ", source.unsafe_storage().nbytes(),
              " bytes, is not what was recorded");
}

/// Ensures that a view made past the dispatcher stays inside its source's storage.
void check_reach(const c10::TensorImpl& source, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset) {
  const int64_t wanted = reach(sizes, strides, offset);
  const auto bytes = static_cast<size_t>(wanted) * source.itemsize();
  if (offset < 0 || bytes > source.unsafe_storage().nbytes()) [[unlikely]]
    refuse_reach(source, wanted);
}

/// How often each register is read.
std::vector<int> count_reads(const std::vector<Instruction>& instructions, const std::vector<bool>& read) {
  std::vector<int> reads(read.begin(), read.end());
  for (const Instruction& instruction : instructions)
    each_read(instruction, [&](Register r) { ++reads[static_cast<size_t>(r)]; });
  return reads;
}

}  // namespace

at::Tensor make_view(const at::Tensor& source, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset) {
  c10::TensorImpl* from = source.unsafeGetTensorImpl();
  check_reach(*from, sizes, strides, from->storage_offset() + offset);
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(from->unsafe_storage()),
                                                   from->key_set(), from->dtype());
  impl->set_sizes_and_strides(sizes, strides, from->storage_offset() + offset);
  return at::Tensor(std::move(impl));
}

void remember_steps(Instruction& instruction, int32_t& remembered) {
  if (instruction.invoke != run_steps) return;
  auto& view = static_cast<View&>(*instruction.bound);
  view.remembered = remembered++;
  each_number(view, [&](NumberId number) {
    if (std::ranges::find(view.numbers, number) == view.numbers.end()) view.numbers.push_back(number);
  });
}

void bind_index(Instruction& instruction, Register source, Register target, ViewStep step) {
  auto view = std::make_unique<View>();
  view->source = source;
  view->target = target;
  view->steps.push_back(std::move(step));
  view->by_operators = true;
  instruction.kind = Instruction::View;
  instruction.bound = std::move(view);
  instruction.invoke = run_operators;
}

std::vector<Instruction> with_views(std::vector<Instruction> instructions, const Recorder& recorder,
                                    const Aliases& aliases) {
  const Views views(recorder, aliases);
  std::vector<Instruction> all;
  all.reserve(instructions.size());
  for (Instruction& instruction : instructions) {
    if (views.append(instruction, all)) continue;
    if (instruction.kind == Instruction::View && views.may_be_made_at_once(view_of(instruction))) {
      static_cast<View&>(*instruction.bound).by_operators = false;
      instruction.invoke = run_steps;
    }
    all.push_back(std::move(instruction));
  }
  return all;
}

void collapse_views(std::vector<Instruction>& instructions, std::vector<bool> read) {
  const std::vector<int> reads = count_reads(instructions, read);
  std::vector<const View*> made(read.size());
  std::vector<bool> collapsed(read.size());
  for (Instruction& instruction : instructions) {
    if (instruction.kind != Instruction::View) continue;
    auto& view = static_cast<View&>(*instruction.bound);
    if (view.by_operators) continue;
    const View* below = made[static_cast<size_t>(view.source)];
    if (below && below->steps.empty() && view.steps.empty()) {
      view.source = below->source;
      view.offset += below->offset;
    } else if (below && !below->steps.empty() && !view.steps.empty() && reads[static_cast<size_t>(view.source)] == 1) {
      collapsed[static_cast<size_t>(view.source)] = true;
      view.source = below->source;
      view.steps.insert(view.steps.begin(), below->steps.begin(), below->steps.end());
    }
    made[static_cast<size_t>(view.target)] = &view;
  }
  for (const Instruction& instruction : instructions)
    each_read(instruction, [&](Register r) { read[static_cast<size_t>(r)] = true; });
  std::erase_if(instructions, [&](const Instruction& instruction) {
    if (instruction.kind != Instruction::View) return false;
    const View& view = view_of(instruction);
    const auto target = static_cast<size_t>(view.target);
    return view.steps.empty() ? !read[target] : collapsed[target];  // kept otherwise: a step may raise
  });
}

}  // namespace gramme::native
