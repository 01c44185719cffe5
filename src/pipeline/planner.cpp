#include "pipeline/planner.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace gramme::pipeline {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// Stage [i, j) costs leaving[j] - entering[i].
struct Costs {
  std::vector<int64_t> entering, leaving, moved;
  std::vector<bool> may_cut;  // before each operation; the first and the end always

  explicit Costs(const Operations& operations) : moved(moved_at(operations)), may_cut(operations.may_cut) {
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
};

/// Can all stages cost at most `limit`? For each place: the greatest `entering` before it that so many stages reach.
bool is_possible(const Costs& costs, int64_t stages, int64_t limit) {
  std::vector<bool> reached(costs.end() + 1, false);
  reached[0] = true;
  for (int64_t stage = 0; stage < stages; ++stage) {
    std::vector<bool> next(costs.end() + 1, false);
    int64_t best = std::numeric_limits<int64_t>::min();
    bool any = false;
    for (size_t j = 0; j <= costs.end(); ++j) {
      next[j] = any && costs.may_cut[j] && costs.leaving[j] - best <= limit;
      if (!reached[j]) continue;
      best = any ? std::max(best, costs.entering[j]) : costs.entering[j];
      any = true;
    }
    reached = std::move(next);
  }
  return reached[costs.end()];
}

int64_t cheapest_limit(const Costs& costs, int64_t stages) {
  int64_t low = 0, high = 0;
  for (size_t i = 0; i <= costs.end(); ++i) high = std::max(high, costs.leaving[i]);
  high -= *std::min_element(costs.entering.begin(), costs.entering.end());
  if (!is_possible(costs, stages, high)) throw std::invalid_argument("there are not enough places to cut");
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

/// The least of the values entered at or above a rank: a Fenwick tree.
class Least {
 public:
  struct Found {
    int64_t value = kNever;
    size_t place = 0;
    bool operator<(const Found& other) const { return value < other.value; }
  };
  explicit Least(size_t ranks) : tree_(ranks + 1) {}
  void enter(size_t rank, Found found) {
    for (size_t i = tree_.size() - 1 - rank; i < tree_.size(); i += i & -i) tree_[i] = std::min(tree_[i], found);
  }
  Found from(size_t rank) const {
    Found least;
    if (rank + 1 >= tree_.size()) return least;
    for (size_t i = tree_.size() - 1 - rank; i > 0; i -= i & -i) least = std::min(least, tree_[i]);
    return least;
  }

 private:
  std::vector<Found> tree_;
};

/// By stage and place, the place where the stage before begins if all stages cost at most `limit` and least is moved.
std::vector<std::vector<size_t>> cheapest_moves(const Costs& costs, int64_t stages, int64_t limit) {
  std::vector<int64_t> ranks = costs.entering;
  std::sort(ranks.begin(), ranks.end());
  const auto rank_of = [&](int64_t entering) {
    return static_cast<size_t>(std::lower_bound(ranks.begin(), ranks.end(), entering) - ranks.begin());
  };
  std::vector<int64_t> moved(costs.end() + 1, kNever);
  moved[0] = 0;
  std::vector<std::vector<size_t>> begins;
  for (int64_t stage = 0; stage < stages; ++stage) {
    Least least(ranks.size());
    std::vector<int64_t> next(costs.end() + 1, kNever);
    std::vector<size_t> begin(costs.end() + 1, 0);
    for (size_t j = 0; j <= costs.end(); ++j) {
      if (costs.may_cut[j]) {
        const Least::Found found = least.from(rank_of(costs.leaving[j] - limit));
        if (found.value != kNever) next[j] = found.value + costs.moved[j];
        begin[j] = found.place;
      }
      if (moved[j] != kNever) least.enter(rank_of(costs.entering[j]), {moved[j], j});
    }
    moved = std::move(next);
    begins.push_back(std::move(begin));
  }
  return begins;
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

std::vector<int64_t> plan_cuts(const Operations& operations, int64_t stages) {
  const size_t count = operations.cost.size();
  if (operations.moving.size() != count || operations.last_use.size() != count || operations.may_cut.size() != count)
    throw std::invalid_argument("each operation needs a cost, a size, a last use and a place");
  if (stages < 1 || static_cast<size_t>(stages) > count) throw std::invalid_argument("fewer operations than stages");
  const Costs costs(operations);
  const int64_t limit = cheapest_limit(costs, stages);
  const std::vector<std::vector<size_t>> begins = cheapest_moves(costs, stages, limit);
  std::vector<int64_t> cuts;
  size_t place = count;
  for (size_t stage = begins.size(); stage-- > 1;) {
    place = begins[stage][place];
    cuts.push_back(static_cast<int64_t>(place));
  }
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace gramme::pipeline
