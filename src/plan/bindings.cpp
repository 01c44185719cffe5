// Finds the bound form of a root's present object; else walks the program, and binds objects that recur. Roots whose
// content always differs are only walked, with exponential back-off.
#include "plan/bindings.h"

#include <algorithm>

#include "plan/walk.h"

namespace gramme::plan {

void Stability::rebound(uint64_t now) {
  strikes_ = now - last_ <= kClose ? strikes_ + 1 : 0;
  if (now - last_ > kPatience) backoff_ = kFirstBackoff;
  last_ = now;
  if (strikes_ < kStrikes) return;
  strikes_ = 0;
  walk_until_ = now + backoff_;
  backoff_ = std::min(backoff_ * 2, kLastBackoff);
}

Bindings::Bindings(Checking& checking, uint32_t begin, uint32_t end) : checking_(checking), begin_(begin), end_(end) {}

[[gnu::hot]] bool Bindings::check(PyObject* root) {
  if (!find(root)) return check_anew(root);
  Block& block = bound_[current_]->block;
  const bool held = block.holds(checking_.registers.data());
  checking_.moves += block.rereads();
  if (!held) return false;
  if (block.unsettled()) [[unlikely]] {
    stability_.rebound(checking_.checks);
    if (!is_pinned() && !stability_.may_bind(checking_.checks)) drop_current();
  }
  return true;
}

/// Finds the form bound to this root. Starts at the next one, since roots usually come in the same cyclic order.
[[gnu::hot]] bool Bindings::find(PyObject* root) {
  const size_t count = bound_.size();
  if (current_ < count && bound_[current_]->block.is_bound_to(root)) return true;
  const size_t first = current_ + 1 < count ? current_ + 1 : 0;
  for (size_t i = first; i < count + first; ++i) {
    const size_t index = i < count ? i : i - count;
    if (!bound_[index]->block.is_bound_to(root)) continue;
    make_current(index);
    return true;
  }
  return false;
}

[[gnu::hot]] bool Bindings::check_anew(PyObject* root) {
  WithoutCollection no_finalizers;
  const Program& program = checking_.program;
  ++checking_.moves;
  if (!is_pinned()) {  // walks into spare registers, so that a miss leaves the bound forms intact
    ++checking_.walks;
    if (!walk_root(program, begin_, root, checking_.spare.data())) return false;
  }
  const bool wanted = is_pinned() || (stability_.may_bind(checking_.checks) && (bound_.empty() || recurs(root)));
  if (wanted) return bind(root);
  leave_current();
  const auto from = checking_.spare.begin();
  std::copy(from + begin_, from + end_, checking_.registers.begin() + begin_);
  return true;
}

/// True if a root with this address was checked recently (perhaps another object).
bool Bindings::recurs(PyObject* root) {
  if (std::find(seen_.begin(), seen_.end(), root) != seen_.end()) return true;
  if (seen_.size() < kMost)
    seen_.push_back(root);
  else
    seen_[std::exchange(first_seen_, (first_seen_ + 1) % kMost)] = root;
  return false;
}

bool Bindings::bind(PyObject* root) {
  leave_current();
  auto made =
      std::make_unique<Bound>(Bound{{checking_.program, begin_, end_, checking_.scratch, checking_.dropped}, {}});
  if (!made->block.bind(root, checking_.registers.data())) return false;
  ++checking_.rebinds;
  if (bound_.size() < kMost) {
    bound_.push_back(std::move(made));
    current_ = bound_.size() - 1;
    return true;
  }
  stability_.rebound(checking_.checks);
  current_ = std::exchange(oldest_, (oldest_ + 1) % kMost);
  std::swap(bound_[current_], made);
  made->block.unbind();
  return true;
}

void Bindings::make_current(size_t index) {
  leave_current();
  ++checking_.moves;
  current_ = index;
  const std::vector<PyObject*>& own = bound_[index]->registers;
  std::copy(own.begin(), own.end(), checking_.registers.begin() + begin_);
}

void Bindings::leave_current() {
  if (current_ == kNone) return;
  const auto from = checking_.registers.begin();
  bound_[current_]->registers.assign(from + begin_, from + end_);
  current_ = kNone;
}

void Bindings::drop_current() {
  bound_[current_]->block.unbind();
  bound_.erase(bound_.begin() + static_cast<ptrdiff_t>(current_));
  current_ = kNone;
  oldest_ = 0;
}

void Bindings::unbind() {
  for (const auto& bound : bound_) bound->block.unbind();
  bound_.clear();
  current_ = kNone;
  oldest_ = 0;
}

}  // namespace gramme::plan
