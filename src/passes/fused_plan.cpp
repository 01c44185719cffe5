// Assigns memory to each value of a group and emits the kernels, with moves where elements are not adjacent.
#include "passes/fused_plan.h"

#include <algorithm>
#include <numeric>

#include "tape/registers.h"

namespace gramme::native {
namespace {

int64_t count_of(c10::IntArrayRef sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// True if all indices are equal.
bool is_one(const std::vector<int32_t>& indices) {
  return std::ranges::all_of(indices, [&](int32_t i) { return i == indices[0]; });
}

bool is_row(const std::vector<int32_t>& indices) {
  for (size_t i = 0; i < indices.size(); ++i)
    if (indices[i] != indices[0] + static_cast<int32_t>(i)) return false;
  return true;
}

/// The dimensions, longest stride first.
std::vector<size_t> by_strides(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  std::vector<size_t> dims(sizes.size());
  std::iota(dims.begin(), dims.end(), size_t{0});
  std::ranges::stable_sort(dims, [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  return dims;
}

}  // namespace

/// Element indices in this order of the dimensions, the last one fastest.
FusedPlan::Indices FusedPlan::all(const Value& value, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                                  const std::vector<size_t>& dims) {
  Indices indices = {static_cast<int32_t>(value.origin)};
  for (size_t d : dims) {
    Indices more;
    more.reserve(indices.size() * static_cast<size_t>(sizes[d]));
    for (int32_t from : indices)
      for (int64_t i = 0; i < sizes[d]; ++i) more.push_back(static_cast<int32_t>(from + i * strides[d]));
    indices = std::move(more);
  }
  return indices;
}

/// For each element of the result in memory order, the operand's element; nullopt if they do not broadcast.
std::optional<FusedPlan::Indices> FusedPlan::order(const Value& out, const Value& in) {
  if (in.sizes.size() > out.sizes.size()) return std::nullopt;
  const size_t more = out.sizes.size() - in.sizes.size();
  std::vector<int64_t> strides(out.sizes.size(), 0);
  for (size_t d = 0; d < in.sizes.size(); ++d) {
    if (in.sizes[d] != 1 && in.sizes[d] != out.sizes[d + more]) return std::nullopt;
    strides[d + more] = in.sizes[d] == 1 ? 0 : in.strides[d];
  }
  return all(in, out.sizes, strides, by_strides(out.sizes, out.strides));
}

Spot FusedPlan::scratch(int64_t count, c10::ScalarType type) {
  const int64_t at = (made_.scratch + 15) / 16 * 16;
  made_.scratch = at + count * static_cast<int64_t>(c10::elementSize(type));
  return {0, at};
}

/// Finds registers that need memory of their own: those read by others, and bases of views read by others.
void FusedPlan::find_ends(const std::vector<Instruction>& group) {
  std::vector<bool> wanted(wanted_.size(), false);
  for (size_t i = group.size(); i-- > 0;) {
    each_write(group[i], [&](Register r) {
      if (wanted_[static_cast<size_t>(r)] > 0) wanted[static_cast<size_t>(r)] = true;
    });
    if (group[i].kind == Instruction::View) {
      const View& view = view_of(group[i]);
      if (!wanted[static_cast<size_t>(view.target)]) continue;
      wanted[static_cast<size_t>(view.source)] = true;
      made_.views.push_back(i);
      continue;
    }
    each_write(group[i], [&](Register r) {
      if (!wanted[static_cast<size_t>(r)]) return;
      const Seen& seen = recorder_.seen(r);
      Fused::Output& output = made_.outputs.emplace_back();
      output.target = r;
      output.sizes = seen.sizes();
      output.strides = seen.strides();
      output.dtype = seen.dtype();
    });
  }
  std::ranges::reverse(made_.views);
}

/// The register's value; a tensor from outside becomes an input.
const FusedPlan::Value* FusedPlan::value(Register r) {
  if (const auto known = values_.find(r); known != values_.end()) return &known->second;
  const Seen& seen = recorder_.seen(r);
  const auto base = static_cast<int32_t>(1 + made_.outputs.size() + made_.inputs.size());
  made_.inputs.push_back({r, 0});
  Value value{base, 0, 0, seen.sizes().vec(), seen.strides().vec(), seen.dtype()};
  return &values_.emplace(r, std::move(value)).first->second;
}

FusedPlan::Value* FusedPlan::new_value(Register r) {
  const Seen& seen = recorder_.seen(r);
  Value value{0, 0, 0, seen.sizes().vec(), seen.strides().vec(), seen.dtype()};
  const auto end = std::ranges::find(made_.outputs, r, &Fused::Output::target);
  if (end != made_.outputs.end())
    value.base = static_cast<int32_t>(1 + (end - made_.outputs.begin()));
  else
    value.bytes = scratch(count_of(value.sizes), value.dtype).offset;
  return &values_.emplace(r, std::move(value)).first->second;
}

bool FusedPlan::add_view(const View& view) {
  const Value source = *value(view.source);
  const Seen& seen = recorder_.seen(view.target);
  if (seen.dtype() != source.dtype) return false;
  values_.emplace(view.target, Value{source.base,
                                     source.bytes,
                                     source.origin + view.offset,
                                     {view.sizes.begin(), view.sizes.end()},
                                     {view.strides.begin(), view.strides.end()},
                                     source.dtype});
  return true;
}

/// Adjacent elements of this type; copied first if necessary.
std::optional<Spot> FusedPlan::elements(const Value& value, Indices indices, c10::ScalarType type) {
  const auto size = static_cast<int64_t>(c10::elementSize(value.dtype));
  const auto [first, last] = std::ranges::minmax(indices);
  if (first < 0) return std::nullopt;
  if (value.base > static_cast<int32_t>(made_.outputs.size())) {
    Fused::Input& input = made_.inputs[static_cast<size_t>(value.base) - 1 - made_.outputs.size()];
    input.reach = std::max<int64_t>(input.reach, last + 1);
  }
  const bool one = is_one(indices), row = one || is_row(indices);
  Spot found{value.base, value.bytes + (row ? first * size : 0), !one};
  if (row && value.dtype == type) return found;
  Kernel copy;
  copy.run = mover(type, value.dtype);
  if (!copy.run) return std::nullopt;
  copy.count = one ? 1 : static_cast<int32_t>(indices.size());
  copy.in[0] = found;
  copy.out = scratch(copy.count, type);
  if (!row) copy.index = std::move(indices);
  const Spot made{0, copy.out.offset, !one};
  made_.kernels.push_back(std::move(copy));
  return made;
}

std::optional<Spot> FusedPlan::operand(const FusedOperand& operand, const Value& out, c10::ScalarType type,
                                       Kernel& kernel, int which) {
  if (operand.tensor == kNone) {
    if (which > 1 || !put_literal(operand.number, type, kernel.literal[which])) return std::nullopt;
    return Spot{-1, 0, false};
  }
  const Value in = *value(operand.tensor);
  std::optional<Indices> indices = order(out, in);
  return indices ? elements(in, std::move(*indices), type) : std::nullopt;
}

bool FusedPlan::add_reduction(const FusedNode& node, const Value& out) {
  const Value in = *value(node.operands[0].tensor);
  std::vector<size_t> kept, summed;
  for (size_t d = 0; d < in.sizes.size(); ++d)
    (std::ranges::find(node.dims, static_cast<int64_t>(d)) == node.dims.end() ? kept : summed).push_back(d);
  int64_t packed = 1;  // results are contiguous
  for (size_t d = out.sizes.size(); d-- > 0; packed *= out.sizes[d])
    if (out.sizes[d] > 1 && out.strides[d] != packed) return false;
  std::vector<size_t> dims = kept;
  dims.insert(dims.end(), summed.begin(), summed.end());
  std::optional<Spot> from = elements(in, all(in, in.sizes, in.strides, dims), in.dtype);
  if (!from) return false;
  Kernel kernel;
  kernel.run = node.kind == FusedNode::Sum ? summer(in.dtype) : first_finder(in.dtype, node.kind == FusedNode::Largest);
  kernel.in[0] = *from;
  kernel.count = static_cast<int32_t>(count_of(out.sizes));
  kernel.in[1].offset = count_of(in.sizes) / kernel.count;
  kernel.out = {out.base, out.bytes};
  made_.kernels.push_back(std::move(kernel));
  return true;
}

bool FusedPlan::add_join(const FusedNode& node, const Value& out) {
  int64_t at = out.bytes;
  for (const FusedOperand& part : node.operands) {
    const Value in = *value(part.tensor);
    std::vector<size_t> dims(in.sizes.size());
    std::iota(dims.begin(), dims.end(), size_t{0});
    std::optional<Spot> from = elements(in, all(in, in.sizes, in.strides, dims), out.dtype);
    if (!from) return false;
    Kernel kernel;
    kernel.run = mover(out.dtype, out.dtype);
    kernel.in[0] = *from;
    kernel.count = static_cast<int32_t>(count_of(in.sizes));
    kernel.out = {out.base, at};
    at += kernel.count * static_cast<int64_t>(c10::elementSize(out.dtype));
    made_.kernels.push_back(std::move(kernel));
  }
  return true;
}

bool FusedPlan::add(const FusedNode& node) {
  if (node.kind == FusedNode::Join) return add_join(node, *new_value(node.out));
  if (!node.dims.empty() || node.kind == FusedNode::Sum) return add_reduction(node, *new_value(node.out));
  const Value out = *new_value(node.out);
  Kernel kernel;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const bool truth = node.operation == Operation::Choose && i == 0 && node.kind == FusedNode::Compute;
    const c10::ScalarType from = truth ? c10::kBool : node.type;
    std::optional<Spot> spot = operand(node.operands[i], out, from, kernel, static_cast<int>(i));
    if (!spot) return false;
    kernel.in[i] = *spot;
  }
  kernel.run = node.kind == FusedNode::Compute ? kernel_of(node.operation, node.type) : mover(node.type, node.type);
  kernel.count = static_cast<int32_t>(count_of(out.sizes));
  kernel.out = {out.base, out.bytes};
  if (!kernel.run) return false;
  made_.kernels.push_back(std::move(kernel));
  return true;
}

bool FusedPlan::take(const std::vector<Instruction>& group) {
  find_ends(group);
  for (const Instruction& instruction : group) {
    if (instruction.kind == Instruction::View) {
      if (!add_view(view_of(instruction))) return false;
      continue;
    }
    const std::optional<FusedNode> node = nodes_.node_of(instruction);
    if (!node || !add(*node)) return false;
  }
  return true;
}

}  // namespace gramme::native
