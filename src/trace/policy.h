// What a capture is told before it begins, and what makes it begin again.
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
  Owned<> pattern;            // compiled, of the source's name
  std::optional<size_t> dim;  // none: all
};

/// An object that a segment held: none is kept alive, so another one may have its address since.
struct Held {
  const PyObject* address;
  Owned<> code;  // of a function
};

/// Hears of the lines that are captured.
class LineListener {
 public:
  virtual ~LineListener() = default;
  /// An attempt starts, perhaps not the first.
  virtual void begins() = 0;
  /// `depth`: of the calls that are inlined, 1 for the frame where the segment begins.
  virtual void comes_to(PyCodeObject* code, int line, int depth) = 0;
};

/// What the capture was told, and what earlier captures of the same resume point taught.
struct Policy {
  // By Source::path:
  std::unordered_map<size_t, Owned<>> numbers;               // ints and floats that earlier captures were bound to
  std::unordered_set<size_t> dynamic;                        // those that changed between captures
  std::unordered_set<size_t> specialized;                    // those that turned out to be needed as constants
  std::unordered_set<size_t> zeros;                          // floats that did while they were 0
  std::unordered_map<size_t, const meta::Record*> observed;  // what tensors were at earlier captures
  std::unordered_map<size_t, int64_t> lengths;               // of lists, likewise
  std::unordered_map<size_t, Owned<>> keys;                  // of dicts of hooks
  std::unordered_map<size_t, Held> held;                     // objects that earlier captures held
  std::unordered_map<size_t, int> cached;                    // captures to which caches gave a result
  std::unordered_set<size_t> fixed;                          // sizes and ints that are constants in this capture only
  std::unordered_map<size_t, int> times_fixed;               // captures in which the program needed them as constants
  std::unordered_set<size_t> late_hooks;                     // root steps of hooks that this graph does not register
  bool told_by_backend = false;                              // that cannot take a number which another one may
  bool general = false;                                      // the segment ends where a size would be a number
  Contract contract = kClosed;                               // what the backend does with graphs
  bool automatic = true;                                     // sizes and ints that changed vary
  bool all_dynamic = false;                                  // all those of the caller's do
  bool whole_numbers_vary = true;                            // ints may
  meta::DataDependence data;                                 // what graphs may take out of data
  bool module_numbers_vary = false;                          // ints of modules do under all_dynamic
  std::vector<NamedSource> named_dynamic;                    // these do whatever else is said
  std::vector<NamedSource> named_static;                     // these stay, but for what mark_dynamic was told of
  std::vector<NamedSource> named_unbacked;                   // of these nothing is known
  std::unordered_set<int64_t> dynamic_values;                // sizes and ints that are one of these vary
  size_t max_instructions = 4'000'000;
  size_t max_nodes = 400'000;
  int max_depth = 500;            // inlined calls
  bool iterates = true;           // the segment may take items of iterators from before
  LineListener* lines = nullptr;  // hears of the lines that are captured
  bool in_step = false;  // it begins in the middle of a method of an optimizer: locals are of its groups and state
  // For tests:
  Reason beyond = Reason::Budget;  // what refuses the instruction after max_instructions
  size_t stop_at = SIZE_MAX;       // the root step at which the segment must end
};

/// So many captures that needed one size as a number make it one for good.
constexpr int kTimesFixed = 2;

/// A cache that so many captures found a result in, and that has lost it since, is emptied again and again.
constexpr int kTimesCached = 2;

/// Something that was taken as unknown must be known from the start: the capture starts again with it specialised.
struct NeedsConstant {
  std::vector<const Source*> sources;
  bool by_backend = false;
};

/// A tensor leaves the graph with a hook that nobody outside would see: the capture starts again, and the hook of this
/// root step is registered after the graph.
struct HookLeaves {
  size_t step;
};

/// True if earlier captures may teach that a number at the source varies. Those of the caller, of the function's cells
/// and of its globals; not those of classes and modules.
bool may_vary(const Source* source);

/// True if a wrapper of functools.lru_cache keeps it for a key.
bool is_result_of_cache(const Source* source);

/// True for a dict of hooks that torch keeps by the ids of their handles. No hook is told its id, and each has another.
bool is_of_hooks(const Source* source);

/// True if a tensor's sizes stay, because it is a parameter or buffer of a module.
bool is_of_module(const meta::Record* record, const Source* source);

/// A live object is in a state that no guard tells from others: nothing is captured this time.
struct Unguardable {};

}  // namespace gramme::trace
