// The bound forms of one part of a program: what hangs off one root, bound to each of the objects that the root was at
// several calls. A segment that serves the layers of a model in turn has one for each layer.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "plan/bound.h"
#include "plan/program.h"

namespace gramme::plan {

/// When to give up words for a root whose content is another one at every call, and when to try again.
class Stability {
 public:
  bool may_bind(uint64_t now) const { return now >= walk_until_; }
  /// The words had to be taken anew, in whole or in good part.
  void rebound(uint64_t now);

 private:
  static constexpr uint64_t kClose = 8, kPatience = 1 << 12, kFirstBackoff = 64, kLastBackoff = 1 << 16;
  static constexpr int kStrikes = 4;
  uint64_t last_ = 0, walk_until_ = 0, backoff_ = kFirstBackoff;
  int strikes_ = 0;
};

/// What the parts of a plan share.
struct Checking {
  explicit Checking(const Program& program)
      : program(program), registers(program.steps.size()), spare(program.steps.size()) {}
  Checking(const Checking&) = delete;

  const Program& program;
  std::vector<PyObject*> registers, spare;
  Dropped dropped;
  Scratch& scratch = scratch_of_all;
  uint64_t checks = 0;
  size_t walks = 0, rebinds = 0;
};

class Bindings {
 public:
  /// Steps [begin, end): one root and what hangs off it, or all pinned objects.
  Bindings(Checking& checking, uint32_t begin, uint32_t end);
  /// True if the facts hold of the root's object (null for pinned objects). Brings the registers up to date.
  bool check(PyObject* root);
  void unbind();
  uint32_t begin() const { return begin_; }
  /// The number of words of the bound form that held last.
  size_t words() const { return current_ < bound_.size() ? bound_[current_]->block.words() : 0; }

 private:
  struct Bound {
    Block block;
    std::vector<PyObject*> registers;  // while another one is current
  };
  static constexpr size_t kMost = 128, kNone = SIZE_MAX;

  bool find(PyObject* root);
  bool check_anew(PyObject* root);
  bool bind(PyObject* root);
  bool recurs(PyObject* root);
  void make_current(size_t index);
  void leave_current();
  void drop_current();
  /// Pinned objects are never walked: their words are all there is.
  bool is_pinned() const { return checking_.program.steps[begin_].kind == source::Kind::Pinned; }

  Checking& checking_;
  uint32_t begin_, end_;
  std::vector<std::unique_ptr<Bound>> bound_;
  size_t current_ = kNone;       // whose registers are the plan's
  size_t oldest_ = 0;            // gives way when there are too many
  std::vector<PyObject*> seen_;  // the last roots that were walked; not held
  size_t first_seen_ = 0;
  Stability stability_;
};

}  // namespace gramme::plan
