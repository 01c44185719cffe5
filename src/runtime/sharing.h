// Shares segments between entries of equal code: instances of a class that are compiled one by one, blocks of a model,
// functions that a loop makes anew.
//
// A segment refers to objects by sources, and its guards decide for which objects it is valid. So an entry without a
// segment for a call looks at those of other entries at the same place of the same code. If the guards of one match,
// the entry uses a copy: graph and description are shared, the bound guards and the counts are its own. Terms, a
// number, stand for what else determines a capture: backend, flags, settings.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/table.h"

namespace gramme::runtime {

/// Lists a table among those of its code object, from its creation to its end.
void list_table(CodeTable& table);
void unlist_table(CodeTable& table);
/// Segments captured from now on are not shared with earlier ones.
void forget_shared();

/// Called when a family's entry is about to die: keeps segments for later entries if they hold no object of the program
/// that would otherwise die, up to the most recently used few.
void keep_segments(const Family& family);
/// Drops kept segments whose terms no entry will have again.
void forget_kept(const std::function<bool(uint64_t terms)>& is_over);
/// Called at the interpreter's end: keeps nothing from now on.
void keep_nothing();

/// Segments of tables of the same code that may serve another table at this resume point: one for each capture, those
/// for fixed sizes first. Segments without a graph may come from other backends too. Runs no Python.
std::vector<SegmentPtr> shared_segments(const CodeTable& table, const ResumePoint& point, const Terms& terms);
/// The same for segments of other backends that keep their graphs.
std::vector<SegmentPtr> segments_with_graphs(const CodeTable& table, const ResumePoint& point, const Terms& terms);
/// A copy with unbound guards.
SegmentPtr copied(const plan::Segment& segment);

}  // namespace gramme::runtime
