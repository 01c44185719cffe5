// What a recording (gramme.record) sees of runs: how often and how long segments, concrete instructions and uncompiled
// frames ran. Costs nothing while no recording is open (is_watched()). Guarded by the GIL.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/process.h"
#include "base/ref.h"
#include "base/ticks.h"

namespace gramme::runtime {

/// A piece of the thread's time, minus the time of nested spans.
class Span {
 public:
  Span() : around_(nested_.ticks), start_(ticks()) { nested_.ticks = 0; }
  ~Span() {
    if (!ended_) end();
  }
  Span(const Span&) = delete;
  /// The time so far without nested spans. Call it once.
  Ticks end() {
    const Ticks all = ticks() - start_, own = all - nested_.ticks;
    nested_.ticks = around_ + all;
    ended_ = true;
    return own;
  }
  Ticks start() const { return start_; }

 private:
  struct Nested {
    Ticks ticks = 0;  // that spans nested in the innermost one have taken
  };
  [[gnu::tls_model("initial-exec")]] static constinit thread_local Nested nested_;
  Ticks around_, start_;
  bool ended_ = false;
};

class Recording {
 public:
  struct Totals {
    uint64_t count = 0;
    Ticks own = 0, longest = 0;
  };
  struct Run {
    Ticks start;
    uint32_t segment;  // counted from first()
    float own;
  };
  /// An instruction carried out for real, or one from which CPython runs the frame to its end.
  struct Place {
    Owned<PyCodeObject> code;
    int unit;
    bool plain;
    uint64_t operators = 0;  // dispatched outside of graphs in its first run
    Totals totals = {};
  };

  /// Calls `listener.met(code, line, plain)` the first time a place runs.
  explicit Recording(PyObject* listener);
  /// The recording that is open in this process, or null.
  static Recording* current() { return state_->current; }
  static void set_current(Recording* recording);

  PyObject* listener() const { return listener_.get(); }
  /// The recording's segments are numbered from here; lower numbers belong to earlier recordings.
  int64_t first() const { return first_; }
  static int64_t give_number() { return state_->next_number++; }

  void ran(int64_t segment, Ticks start, Ticks own);
  Place& place(PyCodeObject* code, int unit, bool plain);

  const std::vector<Totals>& segments() const { return segments_; }
  const std::vector<Run>& runs() const { return runs_; }
  const std::vector<Place>& places() const { return places_; }

 private:
  static constexpr size_t kMostRuns = 1 << 20;  // runs kept one by one, 16 bytes each
  struct State {
    Recording* current = nullptr;  // GIL, a word: the open one
    int64_t next_number = 0;       // GIL, a word: of a segment
  };
  static Lasting<State> state_;

  Owned<> listener_;
  int64_t first_;
  std::vector<Totals> segments_;  // by number, from first_ on
  std::vector<Run> runs_;
  std::vector<Place> places_;
  std::unordered_map<uint64_t, size_t> place_of_;
};

inline Lasting<Recording::State> Recording::state_;

/// Scope whose time is charged to a place.
class TimedPlace {
 public:
  TimedPlace(PyCodeObject* code, int unit, bool plain);
  ~TimedPlace();
  TimedPlace(const TimedPlace&) = delete;

 private:
  struct Counting;
  PyCodeObject* code_;
  int unit_;
  bool plain_;
  Recording* recording_;
  std::unique_ptr<Counting> counting_;  // only for the first run
  Span span_;
};

}  // namespace gramme::runtime
