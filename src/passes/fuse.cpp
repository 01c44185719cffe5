// Groups neighbouring instructions, and runs a group by kernels over scratch memory, or part by part under a profiler.
#include "passes/fuse.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>

#include "passes/fused_plan.h"
#include "tape/registers.h"

namespace gramme::native {
namespace {

constexpr int64_t kScratch = 32768;  // bytes

void run_parts(const Fused& fused, Run& run) {
  for (const Instruction& part : fused.parts) {
    if (part.below_autograd) {
      at::AutoDispatchBelowADInplaceOrView below;
      part.invoke(part, run);
    } else {
      part.invoke(part, run);
    }
  }
}

/// Raises for a tensor that reaches past its storage, which may have been emptied.
[[gnu::cold]] void refuse_reach(const c10::TensorImpl& tensor, size_t wanted) {
  TORCH_CHECK(false, "gramme: a tensor of ", wanted, " bytes from the start of its storage, which has ",
              tensor.unsafe_storage().nbytes(), ", is not what was recorded");
}

/// The address of the tensor's first element.
char* address_of(const at::Tensor& tensor, int64_t reach) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const size_t wanted = static_cast<size_t>(impl->storage_offset() + reach) * impl->itemsize();
  if (wanted > impl->unsafe_storage().nbytes()) [[unlikely]]
    refuse_reach(*impl, wanted);
  return static_cast<char*>(const_cast<void*>(impl->data()));
}

[[gnu::hot]] void run_fused(const Instruction& instruction, Run& run) {
  const Fused& fused = fused_of(instruction);
  if (!run.below_autograd) return run_parts(fused, run);
  alignas(64) char scratch[kScratch];
  c10::SmallVector<char*, 16> bases = {scratch};
  for (const Fused::Output& output : fused.outputs) {
    at::Tensor made = at::detail::empty_strided_cpu(output.sizes, output.strides, output.dtype);
    bases.push_back(static_cast<char*>(made.unsafeGetTensorImpl()->mutable_data()));
    run.own[output.target] = std::move(made);
  }
  for (const Fused::Input& input : fused.inputs) bases.push_back(address_of(*run.tensors[input.source], input.reach));
  for (const Kernel& kernel : fused.kernels) kernel.run(kernel, bases.data());
  for (size_t view : fused.views) fused.parts[view].invoke(fused.parts[view], run);
}

/// Finds runs of neighbours that can be computed together.
class Fuser {
 public:
  Fuser(std::vector<Instruction> instructions, const Recorder& recorder, const std::vector<bool>& returned)
      : given_(std::move(instructions)), recorder_(recorder), known_(given_, recorder), reads_(returned.size(), 0) {
    for (const Instruction& instruction : given_) count(instruction, 1);
    for (size_t r = 0; r < returned.size(); ++r) reads_[r] += returned[r];
  }

  std::vector<Instruction> run() {
    for (Instruction& instruction : given_) {
      const bool fits = is_fixed_view(instruction) || known_.node_of(instruction).has_value();
      if (!fits) close();
      (fits ? group_ : made_).push_back(std::move(instruction));
    }
    close();
    return std::move(made_);
  }

 private:
  void count(const Instruction& instruction, int by) {
    each_read(instruction, [&](Register r) { reads_[static_cast<size_t>(r)] += by; });
  }

  bool is_fixed_view(const Instruction& instruction) const {
    if (instruction.kind != Instruction::View) return false;
    const View& view = view_of(instruction);
    return view.steps.empty() && !view.by_operators && view.offset >= 0 && recorder_.seen(view.source).plain;
  }

  /// Ends the group: emits one instruction, then views that only others read.
  void close() {
    std::vector<Instruction> group = std::move(group_);
    group_.clear();
    const bool computes = std::ranges::any_of(group, [](const Instruction& one) { return one.call != nullptr; });
    std::vector<Instruction> later = computes ? take_idle_views(group) : std::vector<Instruction>();
    if (std::unique_ptr<Fused> fused = computes ? fuse(group) : nullptr) {
      Instruction& made = made_.emplace_back();
      made.kind = Instruction::Fused;
      made.step = group.front().step;
      made.invoke = run_fused;
      fused->parts = std::move(group);
      made.bound = std::move(fused);
    } else {
      std::ranges::move(group, std::back_inserter(made_));
    }
    std::ranges::move(later, std::back_inserter(made_));
  }

  /// Views that nothing in the group reads.
  std::vector<Instruction> take_idle_views(std::vector<Instruction>& group) const {
    std::vector<bool> read(reads_.size(), false);
    std::vector<Instruction> idle, rest;
    for (size_t i = group.size(); i-- > 0;) {
      const bool view = group[i].kind == Instruction::View;
      if (view && !read[static_cast<size_t>(view_of(group[i]).target)]) {
        idle.push_back(std::move(group[i]));
        continue;
      }
      each_read(group[i], [&](Register r) { read[static_cast<size_t>(r)] = true; });
      rest.push_back(std::move(group[i]));
    }
    std::ranges::reverse(idle);
    std::ranges::reverse(rest);
    group = std::move(rest);
    return idle;
  }

  static std::vector<Register> read_from_outside(const std::vector<Instruction>& group) {
    std::vector<Register> read, written;
    for (const Instruction& one : group) {
      each_read(one, [&](Register r) {
        const bool known = std::ranges::find(written, r) != written.end() || std::ranges::find(read, r) != read.end();
        if (!known) read.push_back(r);
      });
      each_write(one, [&](Register r) { written.push_back(r); });
    }
    return read;
  }

  std::unique_ptr<Fused> fuse(const std::vector<Instruction>& group) {
    for (const Instruction& one : group) count(one, -1);  // the remaining counts are reads by others
    auto fused = std::make_unique<Fused>();
    FusedPlan plan(known_, recorder_, reads_, *fused);
    fused->read = read_from_outside(group);
    const bool planned = plan.take(group) && fused->scratch <= kScratch;
    for (const Instruction& one : group) count(one, 1);
    return planned ? std::move(fused) : nullptr;
  }

  std::vector<Instruction> given_, group_, made_;
  const Recorder& recorder_;
  const FusedNodes known_;
  std::vector<int> reads_;  // by register: reads by instructions outside the group
};

}  // namespace

std::vector<Instruction> with_fused(std::vector<Instruction> instructions, const Recorder& recorder,
                                    const std::vector<bool>& returned) {
  return Fuser(std::move(instructions), recorder, returned).run();
}

}  // namespace gramme::native
