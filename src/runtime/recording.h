// What a recording (gramme.record) sees of runs: how often segments ran, instructions were carried out for real and
// frames ran uncompiled, and how long that took. While there is none nobody looks (is_watched()). Guarded by the GIL.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/ref.h"
#include "base/ticks.h"

namespace gramme::runtime {

/// A piece of the thread's time. What its spans inside take is theirs.
class Span {
 public:
  Span() : around_(inside_), start_(ticks()) { inside_ = 0; }
  ~Span() {
    if (!ended_) end();
  }
  Span(const Span&) = delete;
  /// Once: the time so far, without that of spans inside.
  Ticks end() {
    const Ticks all = ticks() - start_, own = all - inside_;
    inside_ = around_ + all;
    ended_ = true;
    return own;
  }
  Ticks start() const { return start_; }

 private:
  // What the spans inside the innermost one have taken.
  [[gnu::tls_model("initial-exec")]] static thread_local Ticks inside_;
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
    uint64_t operators = 0;  // dispatched outside of graphs when it was met
    Totals totals = {};
  };

  /// `listener` hears of each place when it is met: met(code, line, plain).
  explicit Recording(PyObject* listener);
  /// The one under way in this process, or null.
  static Recording* current() { return current_; }
  static void set_current(Recording* recording);

  PyObject* listener() const { return listener_.get(); }
  /// Segments of the recording have numbers from here on; those before are of earlier ones.
  int64_t first() const { return first_; }
  static int64_t give_number() { return next_++; }

  void ran(int64_t segment, Ticks start, Ticks own);
  Place& place(PyCodeObject* code, int unit, bool plain);

  const std::vector<Totals>& segments() const { return segments_; }
  const std::vector<Run>& runs() const { return runs_; }
  const std::vector<Place>& places() const { return places_; }

 private:
  static constexpr size_t kMostRuns = 1 << 20;  // that are kept one by one, of 16 bytes
  static inline Recording* current_ = nullptr;
  static inline int64_t next_ = 0;

  Owned<> listener_;
  int64_t first_;
  std::vector<Totals> segments_;  // by number, from first_ on
  std::vector<Run> runs_;
  std::vector<Place> places_;
  std::unordered_map<uint64_t, size_t> place_of_;
};

/// While it lives, what the thread does is the place's.
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
  std::unique_ptr<Counting> counting_;  // when it is met
  Span span_;
};

}  // namespace gramme::runtime
