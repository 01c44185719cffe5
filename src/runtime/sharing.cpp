// The lists behind sharing: the tables of each code object, and segments that outlived their entry. Both are bounded,
// since a look must stay cheap beside a capture.
#include "runtime/sharing.h"

#include <algorithm>
#include <unordered_map>

#include "base/process.h"

namespace gramme::runtime {
namespace {

// Searching other tables must cost little compared with a capture.
constexpr size_t kMostTables = 64, kMostSegments = 16;
constexpr size_t kMostKept = 256;

/// A segment whose entry is gone.
struct Kept {
  Owned<PyCodeObject> code;
  int offset;
  Handling handling;
  SegmentPtr segment;
  uint64_t asked = 0;  // when it was last offered
};

struct State {
  std::unordered_map<PyCodeObject*, std::vector<CodeTable*>> tables;  // GIL: of living entries
  std::vector<Kept> kept;                                             // GIL
  uint64_t now = 0;                                                   // GIL, a word: rises when a kept one is offered
  bool closed = false;                                                // GIL, a word: the process ends

  size_t size() const { return tables.size() + kept.size(); }
};
OfProcess<State> state;

bool is_kept(const plan::Segment& segment) {
  return std::ranges::any_of(state->kept, [&](const Kept& each) {
    return each.segment->guards.basis() == segment.guards.basis() && each.segment->terms == segment.terms;
  });
}

/// Adds a segment; returns the evicted one, whose release may run Python.
SegmentPtr keep(Kept added) {
  std::vector<Kept>& all = state->kept;
  SegmentPtr dropped;
  if (all.size() >= kMostKept) {
    const auto oldest = std::ranges::min_element(all, {}, &Kept::asked);
    dropped = std::move(oldest->segment);
    std::swap(*oldest, all.back());
    all.pop_back();
  }
  added.asked = ++state->now;
  all.push_back(std::move(added));
  return dropped;
}

bool may_serve(const plan::Segment& segment, const ResumePoint& point) {
  if (segment.iterates && !point.iterates) return false;
  return segment.exit.callers.empty() || point.returns;
}

bool is_among(const std::vector<SegmentPtr>& segments, const plan::Segment& segment) {
  return std::ranges::any_of(segments,
                             [&](const SegmentPtr& each) { return each->guards.basis() == segment.guards.basis(); });
}

}  // namespace

void list_table(CodeTable& table) { state->tables[table.code()].push_back(&table); }

void unlist_table(CodeTable& table) {
  const auto found = state->tables.find(table.code());
  if (found == state->tables.end()) return;
  std::erase(found->second, &table);
  if (found->second.empty()) state->tables.erase(found);
}

void forget_shared() {
  state->tables.clear();
  const std::vector<Kept> dropped = std::move(state->kept);
}

void keep_nothing() {
  state->closed = true;
  forget_shared();
}

void forget_kept(const std::function<bool(uint64_t terms)>& is_over) {
  std::vector<Kept> dropped;
  std::vector<Kept>& all = state->kept;
  const auto over = std::ranges::partition(all, [&](const Kept& each) { return !is_over(each.segment->terms); });
  std::ranges::move(over, std::back_inserter(dropped));
  all.erase(over.begin(), over.end());
}

void keep_segments(const Family& family) {
  if (state->closed) return;
  std::vector<SegmentPtr> dropped;
  for (const auto& [code, table] : family.tables())
    for (const auto& point : table->points())
      for (size_t i = 0; point && i < point->segments.size(); ++i) {
        plan::Segment& segment = *point->segments[i];
        if (!segment.terms || is_kept(segment) || !family.capturer().outlasts(segment)) continue;
        Kept added{Owned<PyCodeObject>::share(code), point->offset, point->handling, copied(segment)};
        dropped.push_back(keep(std::move(added)));
      }
}

namespace {

template <class Accept>
std::vector<SegmentPtr> accepted(const CodeTable& table, const ResumePoint& point, Accept&& accept) {
  std::vector<SegmentPtr> result;
  static const std::vector<CodeTable*> none;
  const auto listed = state->tables.find(table.code());
  const std::vector<CodeTable*>& all = listed == state->tables.end() ? none : listed->second;
  for (size_t i = 0; i < std::min(all.size(), kMostTables); ++i) {
    const CodeTable* other = all[all.size() - 1 - i];
    const ResumePoint* there = other == &table ? nullptr : other->find(point.offset, point.handling);
    for (size_t at = 0; there && at < there->segments.size() && result.size() < kMostSegments; ++at) {
      const SegmentPtr& segment = there->segments[at];
      if (accept(*segment) && may_serve(*segment, point) && !is_among(result, *segment)) result.push_back(segment);
    }
  }
  for (Kept& each : state->kept) {
    if (each.code.get() != table.code() || each.offset != point.offset || each.handling != point.handling) continue;
    if (!accept(*each.segment) || !may_serve(*each.segment, point) || is_among(result, *each.segment)) continue;
    each.asked = ++state->now;
    if (result.size() < kMostSegments) result.push_back(each.segment);
  }
  std::ranges::stable_partition(result, [](const SegmentPtr& segment) { return !varies(*segment); });
  return result;
}

}  // namespace

std::vector<SegmentPtr> shared_segments(const CodeTable& table, const ResumePoint& point, const Terms& terms) {
  return accepted(table, point, [&](const plan::Segment& segment) {
    if (!segment.compiled && terms.captures && segment.capture_terms == terms.captures) return true;
    return terms.own && segment.terms == terms.own;
  });
}

std::vector<SegmentPtr> segments_with_graphs(const CodeTable& table, const ResumePoint& point, const Terms& terms) {
  return accepted(table, point, [&](const plan::Segment& segment) {
    return segment.guards.kept() && segment.capture_terms == terms.captures &&
           (segment.terms != terms.own || !terms.own);
  });
}

SegmentPtr copied(const plan::Segment& segment) {
  auto copy = std::make_shared<plan::Segment>(segment);
  copy->hits = 0;
  copy->recorded = -1;
  copy->check_seconds = 0;
  return copy;
}

}  // namespace gramme::runtime
