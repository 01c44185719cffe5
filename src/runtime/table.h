// The segments that one entry has captured, by code object and resume point.
#pragma once
#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/ref.h"
#include "bytecode/code.h"
#include "cpython/frame.h"
#include "plan/segment.h"
#include "runtime/binding.h"
#include "runtime/capturer.h"
#include "runtime/counters.h"

namespace gramme::runtime {

using SegmentPtr = std::shared_ptr<plan::Segment>;  // shared: a running segment outlives its table

/// True if the segment serves several sizes or numbers.
bool varies(const plan::Segment& segment);

inline constexpr int kPatience = 8192;

/// Which exceptions are being handled where a segment starts: in its own frames, and around the generator they belong
/// to.
enum class Handling : uint8_t { Nothing, Own, Outer, Both };
inline Handling handling_of(const cpython::Handled& handled) {
  return static_cast<Handling>((handled.own != nullptr) + 2 * (handled.outer != nullptr));
}

/// A place where a segment may start: a code unit, with or without an exception being handled.
struct ResumePoint {
  int offset = 0;
  Handling handling = Handling::Nothing;
  std::vector<SegmentPtr> segments;  // last hit first
  bool capturing = false;            // by some thread; others run uncompiled meanwhile
  bool frozen = false;               // no more captures: the limit was reached, or several in a row failed
  bool steps = false;                // a segment from here ended at once: the instruction is carried out without lookup
  bool steps_into_callee = false;    // ... and a Python function it calls is captured on its own
  bool returns = true;               // segments from here may continue in the callers
  bool iterates = true;              // segments from here may take items of existing iterators
  bool looked_at = false;            // look() has seen a call here, or a capture for aot_eager has
  int failures = 0;                  // failed captures since the last segment
  int returning = 0;                 // segments whose exit is Return
  int patience = kPatience;          // for frames without a graph in the instruction carried out here; see callees.h

  void add(SegmentPtr segment);
  void remove(const plan::Segment& segment);
  /// The number of segments that neither continue in callers nor take items of existing iterators: what the recompile
  /// limit counts.
  int confined() const;
  bool has_graph() const;
  /// Restricts what the next segments may do; `most` is the recompile limit.
  void restrain(int most);
  /// Moves the index-th segment forward. A few for fixed sizes, which have better kernels, stay before those for any
  /// size.
  void hit(size_t index) {
    ++segments[index]->hits;
    if (index) move_forward(index);
  }

 private:
  void move_forward(size_t index);
};

/// The resume points of one code object and the binder of its calls.
class CodeTable {
 public:
  explicit CodeTable(PyCodeObject* code);
  ~CodeTable();
  CodeTable(const CodeTable&) = delete;
  PyCodeObject* code() const { return code_.get(); }
  const bytecode::Code& decoded() const { return decoded_; }
  /// Made at the first request; its address never changes.
  ResumePoint& point(int offset, Handling handling) {
    const size_t at = place_of(offset, handling);
    if (at >= points_.size() || !points_[at]) [[unlikely]]
      add_point(at, offset, handling);
    return *points_[at];
  }
  /// Null if nothing has happened there yet.
  const ResumePoint* find(int offset, Handling handling) const {
    const size_t at = place_of(offset, handling);
    return at < points_.size() ? points_[at].get() : nullptr;
  }
  const std::vector<std::unique_ptr<ResumePoint>>& points() const { return points_; }
  Binder binder;  // binding runs no Python, so the table survives it

 private:
  static size_t place_of(int offset, Handling handling) {
    return 4 * static_cast<size_t>(offset) + static_cast<size_t>(handling);
  }
  void add_point(size_t at, int offset, Handling handling);

  Owned<PyCodeObject> code_;
  const bytecode::Code& decoded_;
  std::vector<std::unique_ptr<ResumePoint>> points_;  // by place_of(); null if nothing has happened there yet
};

/// Everything that belongs to one entry: its function's table and those of callees that are captured on their own.
class Family {
 public:
  explicit Family(std::shared_ptr<Capturer> capturer) : capturer_(std::move(capturer)) {}
  Family(const Family&) = delete;
  /// Called when the entry is about to die: later entries may have its segments, and none looks at its tables any more.
  void retire();
  Capturer& capturer() const { return *capturer_; }
  /// Shared, so that a running call keeps its table when the family is reset.
  const std::shared_ptr<CodeTable>& table(PyCodeObject* code) {
    const std::shared_ptr<CodeTable>* recent = recent_[place_of(code)];
    return recent && (*recent)->code() == code ? *recent : find_table(code);
  }
  /// Drops all segments. The family is already empty when the first segment dies.
  void clear() {
    recent_.fill(nullptr);
    std::exchange(tables_, {}).clear();
  }
  const std::unordered_map<PyCodeObject*, std::shared_ptr<CodeTable>>& tables() const { return tables_; }
  /// For the garbage collector: visits each strong reference that the tables hold.
  int traverse(visitproc visit, void* arg) const;
  /// Counts an event. True if a meter or recording is open.
  bool count(uint64_t Counters::* what) {
    ++(counters.*what);
    if (!is_watched()) return false;
    ++(thread_counters().*what);
    return true;
  }
  bool has_graph() const;
  /// Why the first capture that did not reach the function's end broke; null if all reached it.
  const plan::Ending* first_break() const;
  Counters counters;
  bool looked_over = false;        // the first call was checked for whether anything is captured
  bool forced = false;             // its backend is the one that torch.compiler.set_stance(force_backend=) asks for
  bool compiles_backward = false;  // torch._dynamo.config.compiled_autograd was set as it was compiled
  PyObject* entry = nullptr;       // borrowed; null once it has died

 private:
  static constexpr size_t kRecent = 64;
  static size_t place_of(PyCodeObject* code) {
    const auto address = reinterpret_cast<uintptr_t>(code);
    return (address >> 5 ^ address >> 9) & (kRecent - 1);
  }
  const std::shared_ptr<CodeTable>& find_table(PyCodeObject* code);

  std::shared_ptr<Capturer> capturer_;
  std::array<const std::shared_ptr<CodeTable>*, kRecent> recent_{};  // items of the tables, by place_of()
  std::unordered_map<PyCodeObject*, std::shared_ptr<CodeTable>> tables_;
};

}  // namespace gramme::runtime
