// Binary search for the lowest possible cost of the dearest stage, then a search over higher limits for less data
// moved; both use dynamic programming over the places to cut.
#include "pipeline/planner.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <stdexcept>

namespace gramme::pipeline {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// For each place where a stage may end, the first place where it may begin, given pinned cuts and the memory limit.
std::vector<size_t> earliest_begins(const Operations& operations, int64_t most_memory) {
  std::vector<size_t> earliest{0};
  size_t begin = 0;
  int64_t held = 0;
  for (size_t i = 0; i < operations.cost.size(); ++i) {
    if (operations.must_cut[i]) {
      begin = i;
      held = 0;
    }
    held += operations.memory[i];
    while (held > most_memory && begin <= i) held -= operations.memory[begin++];
    earliest.push_back(begin);
  }
  return earliest;
}

/// Stage [i, j) costs leaving[j] - entering[i].
struct Costs {
  std::vector<int64_t> entering, leaving, moved;
  std::vector<bool> may_cut;  // before each operation; always true for the first and at the end
  std::vector<size_t> earliest;

  Costs(const Operations& operations, int64_t most_memory)
      : moved(moved_at(operations)), may_cut(operations.may_cut), earliest(earliest_begins(operations, most_memory)) {
    int64_t sum = 0;
    for (size_t i = 0; i <= operations.cost.size(); ++i) {
      entering.push_back(sum - moved[i]);
      leaving.push_back(sum + moved[i]);
      if (i < operations.cost.size()) sum += operations.cost[i];
    }
    may_cut[0] = true;
    may_cut.push_back(true);
  }
  size_t end() const { return moved.size() - 1; }
  /// An upper bound of a stage's cost.
  int64_t most() const {
    return *std::max_element(leaving.begin(), leaving.end()) - *std::min_element(entering.begin(), entering.end());
  }
};

/// True if there are cuts with no stage above `limit`. Of the places where a stage may begin, only the one with the
/// greatest `entering` matters.
bool is_possible(const Costs& costs, int64_t stages, int64_t limit) {
  std::vector<bool> reached(costs.end() + 1, false);
  reached[0] = true;
  for (int64_t stage = 0; stage < stages; ++stage) {
    std::vector<bool> next(costs.end() + 1, false);
    std::deque<size_t> begins;  // sorted by falling `entering`
    for (size_t j = 0; j <= costs.end(); ++j) {
      while (!begins.empty() && begins.front() < costs.earliest[j]) begins.pop_front();
      next[j] = !begins.empty() && costs.may_cut[j] && costs.leaving[j] - costs.entering[begins.front()] <= limit;
      if (!reached[j]) continue;
      while (!begins.empty() && costs.entering[begins.back()] <= costs.entering[j]) begins.pop_back();
      begins.push_back(j);
    }
    reached = std::move(next);
  }
  return reached[costs.end()];
}

int64_t cheapest_limit(const Costs& costs, int64_t stages) {
  int64_t low = 0, high = costs.most();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (is_possible(costs, stages, middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

/// A segment tree: finds the least value entered at or above a rank.
class Least {
 public:
  explicit Least(size_t ranks) : size_(ranks), tree_(2 * ranks, kNever) {}
  void enter(size_t rank, int64_t value) {
    for (size_t i = (rank + size_); i > 0; i /= 2)
      tree_[i] = i >= size_ ? value : std::min(tree_[2 * i], tree_[2 * i + 1]);
  }
  /// (value, rank)
  std::pair<int64_t, size_t> from(size_t rank) const {
    size_t least = 0;  // no node
    for (size_t low = rank + size_, high = 2 * size_; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) least = lesser(least, low++);
      if (high % 2 == 1) least = lesser(least, --high);
    }
    if (least == 0 || tree_[least] == kNever) return {kNever, 0};
    while (least < size_) least = tree_[2 * least] == tree_[least] ? 2 * least : 2 * least + 1;
    return {tree_[least], least - size_};
  }

 private:
  size_t lesser(size_t a, size_t b) const { return a == 0 || tree_[b] < tree_[a] ? b : a; }

  size_t size_;
  std::vector<int64_t> tree_;
};

/// The places sorted by `entering`.
struct Ranks {
  std::vector<size_t> place_of, rank_of;
  std::vector<int64_t> entering;

  explicit Ranks(const Costs& costs) : place_of(costs.end() + 1), rank_of(costs.end() + 1) {
    std::iota(place_of.begin(), place_of.end(), size_t{0});
    std::sort(place_of.begin(), place_of.end(),
              [&](size_t a, size_t b) { return std::pair(costs.entering[a], a) < std::pair(costs.entering[b], b); });
    for (size_t rank = 0; rank < place_of.size(); ++rank) {
      rank_of[place_of[rank]] = rank;
      entering.push_back(costs.entering[place_of[rank]]);
    }
  }
  size_t at_least(int64_t value) const {
    return static_cast<size_t>(std::lower_bound(entering.begin(), entering.end(), value) - entering.begin());
  }
};

/// For each stage and place where it ends: where the stage begins if no stage costs more than `limit` and the least
/// data is moved.
std::vector<std::vector<size_t>> cheapest_moves(const Costs& costs, const Ranks& ranks, int64_t stages, int64_t limit) {
  std::vector<int64_t> moved(costs.end() + 1, kNever);
  moved[0] = 0;
  std::vector<std::vector<size_t>> begins;
  for (int64_t stage = 0; stage < stages; ++stage) {
    Least least(costs.end() + 1);
    std::vector<int64_t> next(costs.end() + 1, kNever);
    std::vector<size_t> begin(costs.end() + 1, 0);
    size_t gone = 0;
    for (size_t j = 0; j <= costs.end(); ++j) {
      for (; gone < costs.earliest[j]; ++gone) least.enter(ranks.rank_of[gone], kNever);
      if (costs.may_cut[j]) {
        const size_t lowest = ranks.at_least(costs.leaving[j] - limit);
        const auto [value, rank] = lowest <= costs.end() ? least.from(lowest) : std::pair(kNever, size_t{0});
        if (value != kNever) next[j] = value + costs.moved[j];
        begin[j] = ranks.place_of[rank];
      }
      if (moved[j] != kNever && j >= gone) least.enter(ranks.rank_of[j], moved[j]);
    }
    moved = std::move(next);
    begins.push_back(std::move(begin));
  }
  return begins;
}

class Search {
 public:
  Search(const Operations& operations, const Wanted& wanted)
      : wanted_(wanted),
        costs_(operations, wanted.most_memory),
        ranks_(costs_),
        total_(std::accumulate(operations.cost.begin(), operations.cost.end(), int64_t{0})),
        left_(std::max<size_t>(kFewest, kWork / operations.cost.size())) {}

  /// Less is moved as the limit rises. So a step for a limit between two others is at least as long as with the lower
  /// limit's cost and the higher limit's moves.
  Cuts best() {
    const int64_t low = cheapest_limit(costs_, wanted_.stages);
    const Cuts tight = at(low), loose = at(costs_.most());
    best_ = tight.step <= loose.step ? tight : loose;
    between(low, tight.moved, costs_.most(), loose.moved);
    return best_;
  }

 private:
  static constexpr size_t kFewest = 16, kWork = 1'000'000;

  Cuts at(int64_t limit) const {
    const std::vector<std::vector<size_t>> begins = cheapest_moves(costs_, ranks_, wanted_.stages, limit);
    Cuts made;
    size_t end = costs_.end();
    for (size_t stage = begins.size(); stage-- > 0;) {
      const size_t begin = begins[stage][end];
      made.dearest = std::max(made.dearest, costs_.leaving[end] - costs_.entering[begin]);
      made.moved += costs_.moved[begin];
      if (stage > 0) made.first.push_back(static_cast<int64_t>(begin));
      end = begin;
    }
    std::reverse(made.first.begin(), made.first.end());
    made.step = step(made.dearest, made.moved);
    return made;
  }
  int64_t step(int64_t dearest, int64_t moved) const {
    return total_ + 2 * moved + (wanted_.micro_batches - 1) * dearest;
  }
  void between(int64_t low, int64_t moved_low, int64_t high, int64_t moved_high) {
    if (high - low < 2 || moved_low == moved_high || step(low + 1, moved_high) >= best_.step || left_ == 0) return;
    --left_;
    const int64_t middle = low + (high - low) / 2;
    const Cuts cuts = at(middle);
    if (cuts.step < best_.step) best_ = cuts;
    between(low, moved_low, middle, cuts.moved);
    between(middle, cuts.moved, high, moved_high);
  }

  const Wanted wanted_;
  const Costs costs_;
  const Ranks ranks_;
  const int64_t total_;
  size_t left_;  // how many limits may still be tried
  Cuts best_;
};

void check(const Operations& operations, const Wanted& wanted) {
  const size_t count = operations.cost.size();
  for (size_t size : {operations.moving.size(), operations.last_use.size(), operations.memory.size(),
                      operations.may_cut.size(), operations.must_cut.size()})
    if (size != count) throw std::invalid_argument("each operation needs a cost, a size, a last use and a place");
  if (wanted.stages < 1 || static_cast<size_t>(wanted.stages) > count)
    throw std::invalid_argument("there are fewer operations than stages");
  for (size_t i = 1; i < count; ++i)
    if (operations.must_cut[i] && !operations.may_cut[i])
      throw std::invalid_argument("a cut is pinned where no stage may begin");
  if (std::count(operations.must_cut.begin() + 1, operations.must_cut.end(), true) >= wanted.stages)
    throw std::invalid_argument("more cuts are pinned than there are between the stages");
  const Costs unlimited(operations, kNever), limited(operations, wanted.most_memory);
  if (!is_possible(unlimited, wanted.stages, unlimited.most()))
    throw std::invalid_argument("there are not enough places to cut");
  if (!is_possible(limited, wanted.stages, limited.most()))
    throw std::invalid_argument("no cut keeps every stage within the memory limit");
}

}  // namespace

std::vector<int64_t> moved_at(const Operations& operations) {
  std::vector<int64_t> moved(operations.cost.size() + 1, 0);
  for (size_t i = 0; i < operations.cost.size(); ++i) {
    moved[i + 1] += operations.moving[i];
    moved.at(static_cast<size_t>(operations.last_use[i]) + 1) -= operations.moving[i];
  }
  for (size_t i = 1; i < moved.size(); ++i) moved[i] += moved[i - 1];
  return moved;
}

Cuts plan_cuts(const Operations& operations, const Wanted& wanted) {
  check(operations, wanted);
  return Search(operations, wanted).best();
}

}  // namespace gramme::pipeline
