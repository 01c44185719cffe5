// Accounting of a recording: counts and times per segment and per place, without the time that nested spans took.
#include "runtime/recording.h"

#include <algorithm>

#include "aten/dispatched.h"
#include "base/interruption.h"
#include "bytecode/code.h"
#include "runtime/counters.h"

namespace gramme::runtime {

constinit thread_local Span::Nested Span::nested_;

namespace {

void add(Recording::Totals& totals, Ticks own) {
  ++totals.count;
  totals.own += own;
  totals.longest = std::max(totals.longest, own);
}

uint64_t key_of(const PyCodeObject* code, int unit, bool plain) {
  return (reinterpret_cast<uint64_t>(code) << 16) ^ (static_cast<uint64_t>(unit) << 1) ^ static_cast<uint64_t>(plain);
}

}  // namespace

Recording::Recording(PyObject* listener) : listener_(share(listener)), first_(state_->next_number) {}

void Recording::set_current(Recording* recording) {
  if (!state_->current && recording) ++counted->watchers;
  if (state_->current && !recording) --counted->watchers;
  state_->current = recording;
}

void Recording::ran(int64_t segment, Ticks start, Ticks own) {
  if (segment < first_) return;
  const auto index = static_cast<size_t>(segment - first_);
  if (index >= segments_.size()) segments_.resize(static_cast<size_t>(state_->next_number - first_));
  add(segments_[index], own);
  if (runs_.size() < kMostRuns) runs_.push_back({start, static_cast<uint32_t>(index), static_cast<float>(own)});
}

/// Finds or makes the record of a place. It is keyed by the code object's address, which is unique while the record
/// holds it.
Recording::Place& Recording::place(PyCodeObject* code, int unit, bool plain) {
  const auto [found, is_new] = place_of_.try_emplace(key_of(code, unit, plain), places_.size());
  if (is_new) places_.push_back({Owned<PyCodeObject>::share(code), unit, plain});
  return places_[found->second];
}

/// Counts the operators dispatched while a new place runs.
struct TimedPlace::Counting {
  Counting() { ++counted->watchers; }
  ~Counting() { --counted->watchers; }
  Counting(const Counting&) = delete;
  aten::CountsDispatched counts;
  uint64_t before = aten::dispatched().outside;
};

TimedPlace::TimedPlace(PyCodeObject* code, int unit, bool plain)
    : code_(code), unit_(unit), plain_(plain), recording_(Recording::current()) {
  if (!recording_ || recording_->place(code, unit, plain).totals.count) return;
  counting_ = std::make_unique<Counting>();
  apart_or_throw([&] {
    const Span not_the_places;
    const Owned<> listener = share(recording_->listener());
    take(PyObject_CallMethod(listener.get(), "met", "OiO", code, bytecode::decode(code).line(unit),
                             plain ? Py_True : Py_False));
  });
}

/// The code that ran may have ended the recording.
TimedPlace::~TimedPlace() {
  const Ticks own = span_.end();
  if (!recording_ || recording_ != Recording::current()) return;
  Recording::Place& place = recording_->place(code_, unit_, plain_);
  add(place.totals, own);
  if (counting_) place.operators = std::max(place.operators, aten::dispatched().outside - counting_->before);
}

}  // namespace gramme::runtime
