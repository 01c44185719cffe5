// Segments that one entry captured, for others of equal code: the instances of a class that are compiled one by one,
// the blocks of a model, functions made anew in a loop.
//
// A segment names what it needs by its sources, and its guards say of which objects it holds. So an entry that has
// nothing for a call looks at what other entries have at the same place of the same code, and if the guards of one hold
// of its own call, it goes on with a copy: graph and description are the same objects, what the guards are bound to and
// the counts are its own. Terms, a number, say what captures were told beside the program: backend, flags, settings.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/table.h"

namespace gramme::runtime {

/// The tables of a code object, of all families; each from its making to its end.
void list_table(CodeTable& table);
void unlist_table(CodeTable& table);
/// What is captured from now on shares nothing with what was captured before.
void forget_shared();

/// A family ends: segments that hold nothing of the program's that would end with it stay for later entries, the last
/// few that anybody asked for.
void keep_segments(const Family& family);
/// Those with terms that nobody will have again are dropped.
void forget_kept(const std::function<bool(uint64_t terms)>& is_over);
/// The interpreter ends: nothing is kept from now on.
void keep_nothing();

/// What tables of the same code have at a resume point, that may serve another one at the point: segments for fixed
/// sizes first, of each capture one. Those without a graph serve other backends, too. No Python runs.
std::vector<SegmentPtr> shared_segments(const CodeTable& table, const ResumePoint& point, const Terms& terms);
/// The same of those that were captured for other backends, and keep their graphs.
std::vector<SegmentPtr> segments_with_graphs(const CodeTable& table, const ResumePoint& point, const Terms& terms);
/// A copy that is bound to nothing yet.
SegmentPtr copied(const plan::Segment& segment);

}  // namespace gramme::runtime
