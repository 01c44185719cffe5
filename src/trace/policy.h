// The input of a capture (settings, and what earlier captures learnt), and the exceptions that make it start again.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/ref.h"
#include "meta/record.h"
#include "meta/unbacked.h"
#include "source/source.h"
#include "trace/contract.h"

namespace gramme::trace {

using source::Source;

/// An entry of torch.compiler.config.dynamic_sources, static_sources or unbacked_sources.
struct NamedSource {
  Owned<> pattern;            // compiled, to match the source's name
  std::optional<size_t> dim;  // none: all
};

/// An object that a segment held, by address. It is not kept alive, so another object may have that address now.
struct Held {
  const PyObject* address;
  Owned<> code;  // the function's code, if it is one
};

/// Receives the source lines that a capture visits.
class LineListener {
 public:
  virtual ~LineListener() = default;
  /// An attempt starts; there may have been others.
  virtual void begins() = 0;
  /// `depth` counts inlined calls, 1 for the frame in which the segment begins.
  virtual void comes_to(PyCodeObject* code, int line, int depth) = 0;
};

/// Settings of a capture, and what earlier captures of the same resume point learnt.
struct Policy {
  // By Source::path:
  std::unordered_map<size_t, Owned<>> numbers;               // values of ints and floats at earlier captures
  std::unordered_set<size_t> dynamic;                        // changed between captures
  std::unordered_set<size_t> specialized;                    // needed as constants
  std::unordered_set<size_t> zeros;                          // floats that were needed as constants while 0
  std::unordered_map<size_t, const meta::Record*> observed;  // descriptions of tensors at earlier captures
  std::unordered_map<size_t, int64_t> lengths;               // lengths of lists at earlier captures
  std::unordered_map<size_t, Owned<>> keys;                  // keys of dicts of hooks
  std::unordered_map<size_t, Held> held;                     // objects that earlier captures held
  std::unordered_map<size_t, int> cached;                    // number of captures that found a result in a cache
  std::unordered_set<size_t> fixed;                          // sizes and ints that are constants in this capture only
  std::unordered_map<size_t, int> times_fixed;               // captures in which the program needed them as constants
  std::unordered_set<size_t> late_hooks;                     // root steps of hooks that replay registers, not the graph
  bool told_by_backend = false;                              // the backend cannot take a number that others may
  bool general = false;                                      // the segment ends where a size would be a number
  Contract contract = kClosed;                               // what the backend does with graphs
  bool automatic = true;                                     // sizes and ints that changed between captures vary
  bool all_dynamic = false;                                  // all sizes and ints of the caller vary
  bool whole_numbers_vary = true;                            // ints may vary
  meta::DataDependence data;                                 // which data-dependent values graphs may use
  bool module_numbers_vary = false;                          // under all_dynamic, ints of modules vary too
  std::vector<NamedSource> named_dynamic;                    // always vary
  std::vector<NamedSource> named_static;                     // never vary, unless marked by mark_dynamic
  std::vector<NamedSource> named_unbacked;                   // unbacked: vary, and no decision may use their value
  std::unordered_set<int64_t> dynamic_values;                // sizes and ints with one of these values vary
  size_t max_instructions = 4'000'000;
  size_t max_nodes = 400'000;
  int max_depth = 500;            // inlined calls
  bool iterates = true;           // the segment may take items of existing iterators
  LineListener* lines = nullptr;  // receives the captured lines, if set
  bool in_step = false;           // begins inside an optimizer's method: locals are numbers of its groups and state
  // For tests:
  Reason beyond = Reason::Budget;  // the reason given for ending after max_instructions
  size_t stop_at = SIZE_MAX;       // the root step at which the segment must end
};

/// After this many captures that needed a size as a constant, it stays one.
constexpr int kTimesFixed = 2;

/// A cache that had a result at this many captures and lost it is assumed to be emptied repeatedly.
constexpr int kTimesCached = 2;

/// Thrown if something captured as varying must be a constant from the start: the capture starts again with it
/// specialised.
struct NeedsConstant {
  std::vector<const Source*> sources;
  bool by_backend = false;
};

/// Thrown if a tensor with a hook registered inside the graph leaves the graph, where the hook would be lost. The
/// capture starts again, and replay registers the hook of this root step.
struct HookLeaves {
  size_t step;
};

/// True if a number at the source varies once its value has changed between captures: numbers of the caller, and of the
/// function's cells and globals, but not of classes and modules.
bool may_vary(const Source* source);

/// True for a result that a functools.lru_cache wrapper keeps for a key.
bool is_result_of_cache(const Source* source);

/// True for a dict of torch's hooks by handle id. Ids are unique, and hooks are not told theirs.
bool is_of_hooks(const Source* source);

/// True for parameters and buffers of modules, whose sizes do not vary.
bool is_of_module(const meta::Record* record, const Source* source);

/// Thrown if a live object is in a state that no guard can describe: nothing is captured this time.
struct Unguardable {};

}  // namespace gramme::trace
