// Where a list of operations is best cut into stages.
#pragma once
#include <cstdint>
#include <vector>

namespace gramme::pipeline {

/// Operations in an order in which they can run.
struct Operations {
  std::vector<int64_t> cost;      // of each; not negative
  std::vector<int64_t> moving;    // what it costs to hand its result to a later stage
  std::vector<int64_t> last_use;  // the last operation that takes its result; itself if none does
  std::vector<bool> may_cut;      // before each: may a stage begin with it?
};

/// What is handed over at a cut before each operation, and, 0, behind the last one.
std::vector<int64_t> moved_at(const Operations& operations);

/// The first operation of each stage but the first. The dearest stage, with what it takes and what it hands over, is as
/// cheap as can be, and of all such cuts these hand over least. Throws std::invalid_argument where there are not enough
/// places to cut.
std::vector<int64_t> plan_cuts(const Operations& operations, int64_t stages);

}  // namespace gramme::pipeline
