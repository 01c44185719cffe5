// Finds the best cuts of a list of operations into pipeline stages.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

namespace gramme::pipeline {

/// Operations in an executable order; all vectors have one entry for each.
struct Operations {
  std::vector<int64_t> cost;      // not negative
  std::vector<int64_t> moving;    // cost of passing its result to a later stage
  std::vector<int64_t> last_use;  // the last operation that uses its result; itself if none does
  std::vector<int64_t> memory;    // bytes that it adds to its stage
  std::vector<bool> may_cut;      // whether a stage may begin with it
  std::vector<bool> must_cut;     // whether a stage must begin with it
};

struct Wanted {
  int64_t stages = 1;
  int64_t micro_batches = 1;
  int64_t most_memory = std::numeric_limits<int64_t>::max();  // limit of each stage's bytes
};

struct Cuts {
  std::vector<int64_t> first;  // first operation of each stage except the first stage
  int64_t dearest = 0;         // cost of the dearest stage, with what it receives and passes on
  int64_t moved = 0;           // sum over all cuts
  int64_t step = 0;            // length of a step: all micro-batches through all stages
};

/// What a cut before each operation passes on; 0 after the last one.
std::vector<int64_t> moved_at(const Operations& operations);

/// The cuts with the shortest step. Throws std::invalid_argument if no cuts fulfil the conditions.
Cuts plan_cuts(const Operations& operations, const Wanted& wanted);

}  // namespace gramme::pipeline
