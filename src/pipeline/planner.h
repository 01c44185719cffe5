// Where a list of operations is best cut into stages.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

namespace gramme::pipeline {

/// Operations in an order in which they can run.
struct Operations {
  std::vector<int64_t> cost;      // of each; not negative
  std::vector<int64_t> moving;    // what it costs to hand its result to a later stage
  std::vector<int64_t> last_use;  // the last operation that takes its result; itself if none does
  std::vector<int64_t> memory;    // what it adds to the bytes that its stage holds
  std::vector<bool> may_cut;      // before each: may a stage begin with it?
  std::vector<bool> must_cut;     // before each: does a stage begin with it?
};

struct Wanted {
  int64_t stages = 1;
  int64_t micro_batches = 1;
  int64_t most_memory = std::numeric_limits<int64_t>::max();  // of a stage
};

struct Cuts {
  std::vector<int64_t> first;  // operation of each stage but the first
  int64_t dearest = 0;         // stage, with what it takes and hands over
  int64_t moved = 0;           // at all cuts
  int64_t step = 0;            // all micro-batches through all stages, one after the other through each
};

/// What is handed over at a cut before each operation, and, 0, behind the last one.
std::vector<int64_t> moved_at(const Operations& operations);

/// The cuts with the shortest step. Throws std::invalid_argument where there are not enough places to cut.
Cuts plan_cuts(const Operations& operations, const Wanted& wanted);

}  // namespace gramme::pipeline
