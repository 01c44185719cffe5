#include "bytecode/saved_indices.h"

#include <algorithm>
#include <map>

namespace gramme::bytecode {
namespace {

using Items = std::vector<bool>;  // of the whole stack: is it one?

bool any(const Items& items) { return std::ranges::find(items, true) != items.end(); }

/// Follows all ways from the handlers on.
class Flow {
 public:
  explicit Flow(const Code& code) : code_(code) {
    for (const Instruction& each : code.instructions())
      if (const Handler* handler = code.handler(each.at); handler && handler->lasti)
        enter(*handler, Items(static_cast<size_t>(handler->depth)));
    while (!todo_.empty()) {
      const size_t index = todo_.back();
      todo_.pop_back();
      follow(code.instructions()[index], index, known_[index]);
    }
  }

  Items at(size_t index) const {
    const auto found = known_.find(index);
    return found == known_.end() || !any(found->second) ? Items() : found->second;
  }

 private:
  void go(size_t index, const Items& items) {
    const auto [known, first] = known_.try_emplace(index, items);
    Items& all = known->second;
    bool changed = first;
    for (size_t i = 0; i < std::min(all.size(), items.size()); ++i)
      if (items[i] && !all[i]) changed = all[i] = true;
    if (changed) todo_.push_back(index);
  }

  void enter(const Handler& handler, Items items) {
    items.resize(static_cast<size_t>(handler.depth));
    if (handler.lasti) items.push_back(true);
    items.push_back(false);  // the exception
    go(static_cast<size_t>(code_.index_of(handler.target)), items);
  }

  void follow(const Instruction& instruction, size_t index, Items items) {
    if (!any(items)) return;
    if (const Handler* handler = code_.handler(instruction.at)) enter(*handler, items);
    if (instruction.target >= 0 && (opcode::properties(instruction.op) & opcode::kJump))
      go(static_cast<size_t>(code_.index_of(instruction.target)), after(instruction, items, true));
    if (!(opcode::properties(instruction.op) & opcode::kEndsBlock)) go(index + 1, after(instruction, items, false));
  }

  static Items after(const Instruction& instruction, Items items, bool jumped) {
    const auto from_top = [&](int depth) { return items.size() - static_cast<size_t>(depth); };
    if (instruction.op == Op::COPY) {
      items.push_back(items[from_top(instruction.arg)]);
    } else if (instruction.op == Op::SWAP) {
      const bool top = items.back(), other = items[from_top(instruction.arg)];
      items.back() = other;
      items[from_top(instruction.arg)] = top;
    } else {
      const int pops = opcode::pops(instruction.op, instruction.arg);
      const int pushes = pops + opcode::stack_effect(instruction.op, instruction.arg, jumped);
      items.resize(from_top(pops));
      items.resize(items.size() + static_cast<size_t>(pushes));
    }
    return items;
  }

  const Code& code_;
  std::map<size_t, Items> known_;  // by index of the instruction
  std::vector<size_t> todo_;
};

}  // namespace

std::vector<bool> saved_indices(const Code& code, int unit) {
  return Flow(code).at(static_cast<size_t>(code.index_of(unit)));
}

}  // namespace gramme::bytecode
