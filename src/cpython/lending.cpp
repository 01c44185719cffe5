// Simulates the stack backwards from a code unit, to find the loads that pushed the items still there.
#include "cpython/lending.h"

#include "cpython/encoding.h"
#include "cpython/steps.h"

namespace gramme::cpython {

#if GRAMME_PYTHON_TAGGED_SLOTS

namespace {

using opcode::Op;

/// Processes instructions backwards, and tracks which of the items they pushed are still on the stack.
class Remains {
 public:
  explicit Remains(size_t depth) : depth_(depth) {}

  /// False if deeper items cannot be determined.
  bool before(const Decoded& instruction) {
    for (int i = instruction.count; i-- > 0;) {
      const Part& part = instruction.parts[static_cast<size_t>(i)];
      if (part.op == Op::SWAP || opcode::properties(part.op) & (opcode::kJump | opcode::kEndsBlock)) return false;
      const bool borrows = part.op == Op::LOAD_FAST && lends(instruction.raw);
      const int taken = opcode::pops(part.op, part.arg);
      pushed(taken + opcode::stack_effect(part.op, part.arg, false), borrows ? part.arg : -1);
      consumed_ += taken;
    }
    return items_.size() < depth_;
  }

  std::vector<int> items() {
    while (!items_.empty() && items_.back() < 0) items_.pop_back();
    return std::move(items_);
  }

 private:
  void pushed(int count, int local) {
    for (; count > 0; --count) {
      if (consumed_ > 0)
        --consumed_;
      else if (items_.size() < depth_)
        items_.push_back(local);
    }
  }

  size_t depth_;
  int consumed_ = 0;  // items that later instructions popped
  std::vector<int> items_;
};

}  // namespace

std::vector<int> borrowed_items(PyCodeObject* code, int unit, size_t depth) {
  Owned<> keeps;
  const Units units = steppable_units(code, &keeps);
  std::vector<int> starts;
  for (int at = 0; at < unit; at = decode_at(units, at).next) starts.push_back(at);
  Remains remains(depth);
  while (depth > 0 && !starts.empty() && remains.before(decode_at(units, starts.back()))) starts.pop_back();
  return remains.items();
}

#else

std::vector<int> borrowed_items(PyCodeObject*, int, size_t) { return {}; }

#endif

}  // namespace gramme::cpython
