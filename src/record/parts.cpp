// Follows which registers an observed call and its parts make, write and read.
#include "record/parts.h"

#include <algorithm>

namespace gramme::native {
namespace {

bool is_empty(const Seen& seen) {
  return seen.plain && std::ranges::any_of(seen.sizes(), [](int64_t size) { return size == 0; });
}

}  // namespace

Uninitialized find_uninitialized(const std::vector<Observed>& observed, const Recorder& recorder) {
  Uninitialized found;
  auto each = [](const auto& parts, auto&& visit) {
    for (const auto& part : parts)
      for (Register r : part.registers) visit(r);
  };
  for (const Observed& record : observed) {
    const std::string& name = record.call.op.operator_name().name;
    if (name.starts_with("aten::empty") || name.starts_with("aten::new_empty")) {
      each(record.call.results, [&](Register r) {
        if (r == kNone || !is_empty(recorder.seen(r))) found.tensors.insert(r);
      });
      continue;
    }
    const bool only_looks = name.ends_with("_like") || name.ends_with("::set_") || name.ends_with("::resize_");
    for (Register r : record.written) {
      if (name == "aten::detach_") found.read |= found.tensors.count(r) != 0;
      found.tensors.erase(r);
    }
    each(record.call.arguments, [&](Register r) { found.read |= found.tensors.count(r) != 0 && !only_looks; });
  }
  return found;
}

bool is_only_its_parts(const Observed& record, const Recorder& recorder) {
  const Uninitialized uninitialized = find_uninitialized(record.parts, recorder);
  if (uninitialized.read) return false;
  std::unordered_set<Register> made;
  for (const Observed& part : record.parts)
    for (const OperatorResult& result : part.call.results)
      made.insert(result.registers.begin(), result.registers.end());
  for (const OperatorResult& result : record.call.results)
    for (Register r : result.registers)
      if (r != kNone && (!made.count(r) || uninitialized.tensors.count(r))) return false;
  return true;
}

bool takes_numbers(const Observed& record) {
  return std::ranges::any_of(record.call.arguments,
                             [](const OperatorArgument& argument) { return !argument.numbers.empty(); });
}

}  // namespace gramme::native
