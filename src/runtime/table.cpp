// The lists of segments at a resume point: their order, which of them the recompile limit counts, and the garbage
// collector's view of them.
#include "runtime/table.h"

#include <algorithm>

#include "runtime/sharing.h"

namespace gramme::runtime {

Counters& thread_counters() {
  thread_local Counters counters;
  return counters;
}

void ResumePoint::add(SegmentPtr segment) {
  if (segment->exit.kind == plan::ExitKind::Return) ++returning;
  segments.push_back(std::move(segment));
  move_forward(segments.size() - 1);
}

void ResumePoint::remove(const plan::Segment& segment) {
  returning -= segment.exit.kind == plan::ExitKind::Return;
  std::erase_if(segments, [&](const SegmentPtr& each) { return each.get() == &segment; });
}

namespace {
template <class Is>
int count(const std::vector<SegmentPtr>& segments, Is&& is) {
  return static_cast<int>(
      std::count_if(segments.begin(), segments.end(), [&](const SegmentPtr& each) { return is(*each); }));
}
}  // namespace

int ResumePoint::confined() const {
  return count(segments,
               [](const plan::Segment& segment) { return segment.exit.callers.empty() && !segment.iterates; });
}

/// Once there are enough of them, forbids more segments that return into callers or take iterator items: segments that
/// end earlier serve more calls.
void ResumePoint::restrain(int most) {
  constexpr int kReturning = 4;
  auto returning = [](const plan::Segment& segment) { return !segment.exit.callers.empty() && !segment.iterates; };
  returns = returns && count(segments, returning) < kReturning;
  iterates = iterates && count(segments, [](const plan::Segment& segment) { return segment.iterates; }) < most;
}

bool ResumePoint::has_graph() const {
  return std::any_of(segments.begin(), segments.end(), [](const SegmentPtr& each) { return each->operators > 0; });
}

namespace {
constexpr size_t kStaticFirst = 2;  // segments for fixed sizes that are tried before one for any size
}  // namespace

bool varies(const plan::Segment& segment) { return !segment.guards.description().shapes.symbols.empty(); }

void ResumePoint::move_forward(size_t index) {
  size_t to = 0;
  if (varies(*segments[index]))
    while (to < index && to < kStaticFirst && !varies(*segments[to])) ++to;
  const auto first = segments.begin() + static_cast<ptrdiff_t>(to),
             moved = segments.begin() + static_cast<ptrdiff_t>(index);
  std::rotate(first, moved, moved + 1);
}

void Family::retire() {
  try {
    keep_segments(*this);
  } catch (const std::exception&) {
    PyErr_Clear();  // keeping segments for later entries is optional
  }
  for (const auto& [code, table] : tables_) unlist_table(*table);
}

CodeTable::CodeTable(PyCodeObject* code) : code_(Owned<PyCodeObject>::share(code)), decoded_(bytecode::decode(code)) {
  list_table(*this);
}

CodeTable::~CodeTable() { unlist_table(*this); }

[[gnu::cold]] void CodeTable::add_point(size_t at, int offset, Handling handling) {
  if (at >= points_.size()) points_.resize(at + 1);
  points_[at] = std::make_unique<ResumePoint>();
  points_[at]->offset = offset;
  points_[at]->handling = handling;
}

const std::shared_ptr<CodeTable>& Family::find_table(PyCodeObject* code) {
  std::shared_ptr<CodeTable>& table = tables_[code];
  if (!table) table = std::make_shared<CodeTable>(code);
  recent_[place_of(code)] = &table;
  return table;
}

namespace {

int traverse_segment(const plan::Segment& segment, visitproc visit, void* arg) {
  Py_VISIT(segment.compiled.get());
  Py_VISIT(segment.graph_module.get());
  for (const Owned<>& constant : segment.replay.constants) Py_VISIT(constant.get());
  for (const plan::ReplayOp& op : segment.replay.ops) Py_VISIT(op.object.get());
  Py_VISIT(segment.guards.basis());
  return 0;
}

}  // namespace

int Family::traverse(visitproc visit, void* arg) const {
  if (capturer_.use_count() == 1)
    if (int stop = capturer_->traverse(visit, arg)) return stop;
  for (const auto& [code, table] : tables_) {
    Py_VISIT(table->code());
    for (const auto& point : table->points())
      for (size_t i = 0; point && i < point->segments.size(); ++i) {
        if (point->segments[i].use_count() != 1) continue;  // running now, so other references exist
        if (int stop = traverse_segment(*point->segments[i], visit, arg)) return stop;
      }
  }
  return 0;
}

bool Family::has_graph() const {
  for (const auto& [code, table] : tables_)
    for (const auto& point : table->points())
      if (point && point->has_graph()) return true;
  return false;
}

const plan::Ending* Family::first_break() const {
  const plan::Segment* first = nullptr;
  for (const auto& [code, table] : tables_)
    for (const auto& point : table->points())
      for (const SegmentPtr& segment : point ? point->segments : std::vector<SegmentPtr>())
        if (!segment->ending.file.empty() && (!first || segment->number < first->number)) first = segment.get();
  return first ? &first->ending : nullptr;
}

}  // namespace gramme::runtime
