// Walks the replay program once and decides for each operation whether it makes a new object or changes an existing
// one.
#include "plan/made_only.h"

#include <algorithm>

#include "base/imported.h"
#include "base/once.h"
#include "cpython/replayed.h"

namespace gramme::plan {
namespace {

class Splitter {
 public:
  Splitter(const Replay& replay, int reads)
      : replay_(replay), reads_(reads), absent_(static_cast<size_t>(replay.registers)) {}

  MadeOnly split() {
    for (const ReplayOp& op : replay_.ops)
      if (is_change(op))
        withhold(op);
      else
        keep(op);
    result_.makes.operands = replay_.operands;
    result_.makes.constants = replay_.constants;
    result_.makes.constant_base = replay_.constant_base;
    result_.makes.registers = replay_.registers;
    return std::move(result_);
  }

 private:
  /// True for registers of existing objects: reads and constants. Graph outputs count as new.
  bool is_old(Register r) const {
    const int constants = replay_.constant_base, made = constants + static_cast<int>(replay_.constants.size());
    return (r >= 0 && r < reads_) || (r >= constants && r < made);
  }

  /// True if the operation changes an existing object. Helper calls that only change their operand count by that
  /// operand.
  bool is_change(const ReplayOp& op) const {
    if (op.kind == ReplayKind::CallEffect || op.kind == ReplayKind::SetGradMode) return true;
    if (op.kind == ReplayKind::CallConstant) {
      PyObject* const called = op.object.get();
      const bool changes = called == cpython::iterator_mover() || called == cpython::iterator_advancer() ||
                           called == cpython::hashed_setter() || called == cpython::hashed_deleter();
      return changes && op.count > 0 && is_old(replay_.operands[static_cast<size_t>(op.first)]);
    }
    return op.dst == kNull && is_old(op.a);
  }

  void withhold(const ReplayOp& op) {
    if (op.dst >= 0) absent_[static_cast<size_t>(op.dst)] = true;
    result_.changes.push_back(op);
  }

  void keep(const ReplayOp& op) {
    if (uses_absent(op)) result_.refusal = "what a call with effects returned is part of what is returned or stored";
    result_.makes.ops.push_back(op);
    // torch.Size accepts only numbers, not stand-ins for them, so a plain tuple is made.
    PyTypeObject* const size = once([] { return imported_type("torch", "Size"); });
    if (op.kind == ReplayKind::MakeTuple && op.object.get() == reinterpret_cast<PyObject*>(size))
      result_.makes.ops.back().object = {};
  }

  bool uses_absent(const ReplayOp& op) const {
    auto is_absent = [this](Register r) { return r >= 0 && absent_[static_cast<size_t>(r)]; };
    const auto first = replay_.operands.begin() + op.first;
    return is_absent(op.a) || is_absent(op.b) || is_absent(op.c) || std::any_of(first, first + op.count, is_absent);
  }

  const Replay& replay_;
  const int reads_;
  std::vector<bool> absent_;
  MadeOnly result_;
};

}  // namespace

MadeOnly split(const Replay& replay, int reads) { return Splitter(replay, reads).split(); }

}  // namespace gramme::plan
