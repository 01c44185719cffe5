// Writes whose operands share memory: kernels refuse some of them, which inference on fakes does not show.
#include <algorithm>
#include <unordered_map>

#include "trace/scope.h"
#include "value/views.h"

namespace gramme::trace {

using namespace value;

namespace {

enum class Sharing : uint8_t { None, Partial, Unknown };

const void* memory_of(const Tensor* tensor) {
  const Tensor* root = storage_root(tensor);
  return root->existing() ? aten::storage_of(root->object) : root;
}

bool is_dense(const meta::Record& record) {
  std::vector<std::pair<int64_t, int64_t>> dimensions;  // strides and sizes
  for (size_t i = 0; i < record.sizes.size(); ++i)
    if (const int64_t size = *record.sizes[i].number(); size != 1)
      dimensions.emplace_back(*record.strides[i].number(), size);
  std::sort(dimensions.begin(), dimensions.end());
  int64_t expected = 1;
  return std::ranges::all_of(dimensions, [&](const auto& dimension) {
    const bool fits = dimension.first == expected;
    expected *= dimension.second;
    return fits;
  });
}

/// How PyTorch's kernels classify two views of one tensor. They do not check tensors that are not dense.
Sharing sharing_of_views(const meta::Record& a, const meta::Record& b) {
  if (&a == &b) return Sharing::None;  // full overlap, which kernels allow
  if (a.symbolic || b.symbolic || a.inner || b.inner || a.dtype != b.dtype) return Sharing::Unknown;
  const int64_t a_count = meta::numel(a), b_count = meta::numel(b);
  if (a_count == 0 || b_count == 0 || !is_dense(a) || !is_dense(b)) return Sharing::None;
  const int64_t a_begin = *a.storage_offset.number(), b_begin = *b.storage_offset.number();
  if (a_begin == b_begin && a_count == b_count) return a.strides == b.strides ? Sharing::None : Sharing::Partial;
  return a_begin < b_begin + b_count && b_begin < a_begin + a_count ? Sharing::Partial : Sharing::None;
}

/// `part` describes the written part of a tensor; null means all of it.
Sharing sharing(const Tensor* written, const meta::Record* part, const Tensor* operand) {
  const Tensor *x = storage_root(written), *y = storage_root(operand);
  if (x == y) return sharing_of_views(part ? *part : *written->record, *operand->record);
  return x->existing() && y->existing() && aten::overlap(x->object, y->object) ? Sharing::Unknown : Sharing::None;
}

}  // namespace

bool Scope::overlaps_in_part(const meta::Call& call, const meta::Outcome& outcome, const std::vector<Tensor*>& leaves) {
  if (outcome.mutations.empty() || leaves.size() == 1) return false;
  bool unknown = false;
  std::unordered_map<const void*, std::vector<const Tensor*>> by_memory;
  for (const Tensor* leaf : leaves) by_memory[memory_of(leaf)].push_back(leaf);
  for (const meta::Mutation& mutation : outcome.mutations) {
    const Tensor* written = leaves.at(mutation.leaf);
    const std::vector<const Tensor*>& near = by_memory[memory_of(written)];
    if (near.size() == 1) continue;
    const meta::Record* part = written_part(call);
    for (const Tensor* operand : near) {
      const Sharing found = operand == written ? Sharing::None : sharing(written, part, operand);
      if (found == Sharing::None) continue;
      // a compiler's program may compute what eager's kernels refuse
      const bool known = found == Sharing::Partial || !capture_.contract.as_is;
      if (known && capture_.contract.breaks)
        cannot(Reason::OperatorFailed, "an operand shares memory with what is written");
      unknown = true;
    }
  }
  return unknown;
}

}  // namespace gramme::trace
