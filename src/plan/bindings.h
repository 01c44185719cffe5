// The bound forms of one part of a program, the subtree of one root: one form for each object that recurs as that root.
// A segment that serves the layers of a model in turn has a form for each layer.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "plan/bound.h"
#include "plan/program.h"

namespace gramme::plan {

/// Decides when to stop binding a root whose content differs at every call, and when to try again.
class Stability {
 public:
  bool may_bind(uint64_t now) const { return now >= walk_until_; }
  /// Call when most of the words had to be recorded again.
  void rebound(uint64_t now);

 private:
  static constexpr uint64_t kClose = 8, kPatience = 1 << 12, kFirstBackoff = 64, kLastBackoff = 1 << 16;
  static constexpr int kStrikes = 4;
  uint64_t last_ = 0, walk_until_ = 0, backoff_ = kFirstBackoff;
  int strikes_ = 0;
};

/// State shared by the parts of a plan.
struct Checking {
  explicit Checking(const Program& program)
      : program(program), registers(program.steps.size()), spare(program.steps.size()) {}
  Checking(const Checking&) = delete;

  const Program& program;
  std::vector<PyObject*> registers, spare;
  Dropped dropped;
  Scratch& scratch = *scratch_of_all;
  uint64_t checks = 0;
  uint64_t moves = 0;  // rises whenever a part writes registers
  size_t walks = 0, rebinds = 0;
};

class Bindings {
 public:
  /// Covers steps [begin, end): one root with its subtree, or all pinned objects.
  Bindings(Checking& checking, uint32_t begin, uint32_t end);
  /// True if the facts hold for the root's object (null for pinned objects). Updates the registers.
  bool check(PyObject* root);
  void unbind();
  uint32_t begin() const { return begin_; }
  bool covers(uint32_t step) const { return begin_ <= step && step < end_; }
  /// True if words of the current form show that the step's object has the same attribute dict as before.
  bool has_same_dict(uint32_t step) const {
    return current_ < bound_.size() && bound_[current_]->block.has_same_dict(step);
  }
  /// The number of words of the bound form that held last.
  size_t words() const { return current_ < bound_.size() ? bound_[current_]->block.words() : 0; }

 private:
  struct Bound {
    Block block;
    std::vector<PyObject*> registers;  // saved while another form is current
  };
  static constexpr size_t kMost = 128, kNone = SIZE_MAX;

  bool find(PyObject* root);
  bool check_anew(PyObject* root);
  bool bind(PyObject* root);
  bool recurs(PyObject* root);
  void make_current(size_t index);
  void leave_current();
  void drop_current();
  /// True for pinned objects, which have no walk, only words.
  bool is_pinned() const { return checking_.program.steps[begin_].kind == source::Kind::Pinned; }

  Checking& checking_;
  uint32_t begin_, end_;
  std::vector<std::unique_ptr<Bound>> bound_;
  size_t current_ = kNone;       // the form whose registers are in use
  size_t oldest_ = 0;            // replaced first when there are too many
  std::vector<PyObject*> seen_;  // addresses of recently walked roots; no references
  size_t first_seen_ = 0;
  Stability stability_;
};

}  // namespace gramme::plan
