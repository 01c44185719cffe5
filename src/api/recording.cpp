// Converts a finished recording to Python: ticks to seconds, runs to bins.
#include "api/recording.h"

#include <c10/util/ApproximateClock.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

#include "api/describe.h"
#include "base/process.h"
#include "bytecode/code.h"

namespace nb = nanobind;

namespace gramme::api {
namespace {

using runtime::Recording;

/// The running recording, with its clock.
struct Open {
  explicit Open(PyObject* listener) : recording(listener), start(ticks()) {}
  Recording recording;
  c10::ApproximateClockToUnixTimeConverter clock;
  Ticks start;
};

struct State {
  std::unique_ptr<Open> open;  // GIL
};
OfProcess<State> state;

std::unique_ptr<Open>& open() { return state->open; }

/// Converts ticks to seconds.
class Clock {
 public:
  explicit Clock(Open& open) : to_unix_(open.clock.makeConverter()), start_(open.start) {
    const Ticks now = ticks();
    seconds_ = since_start(now);
    scale_ = seconds_ / static_cast<double>(std::max<Ticks>(now - start_, 1));
  }
  double since_start(Ticks at) const { return static_cast<double>(to_unix_(at) - to_unix_(start_)) * 1e-9; }
  double length(double ticks) const { return ticks * scale_; }
  double seconds() const { return seconds_; }

 private:
  std::function<c10::time_t(c10::approx_time_t)> to_unix_;
  Ticks start_;
  double seconds_ = 0, scale_ = 0;
};

/// Numbers the segments that exist already; those that run are described when the recording ends.
void number_known() {
  for (const std::weak_ptr<runtime::Family>& weak : families())
    if (const std::shared_ptr<runtime::Family> family = weak.lock())
      for (auto& [code, segment] : segments_of(*family)) segment->recorded = Recording::give_number();
}

void start_recording(nb::object listener) {
  if (open()) throw nb::value_error("a recording is under way already");
  open() = std::make_unique<Open>(listener.ptr());
  number_known();
  Recording::set_current(&open()->recording);
}

void set_totals(nb::dict& row, const Recording::Totals& totals, const Clock& clock) {
  row["count"] = totals.count;
  row["seconds"] = clock.length(static_cast<double>(totals.own));
  row["longest"] = clock.length(static_cast<double>(totals.longest));
}

nb::list places(const Recording& recording, const Clock& clock) {
  nb::list rows;
  for (const Recording::Place& place : recording.places()) {
    nb::dict row;
    row["code"] = nb::borrow(reinterpret_cast<PyObject*>(place.code.get()));
    row["line"] = bytecode::decode(place.code.get()).line(place.unit);
    row["plain"] = place.plain;
    row["operations"] = place.operators;
    set_totals(row, place.totals, clock);
    rows.append(row);
  }
  return rows;
}

/// For each segment that ran: its totals, and how often and how long it ran in each of `bins` equal parts of the time.
nb::dict runs(const Recording& recording, const Clock& clock, size_t bins) {
  std::vector<std::vector<std::pair<uint32_t, float>>> binned(recording.segments().size());
  for (const Recording::Run& run : recording.runs()) {
    const double part = clock.since_start(run.start) / std::max(clock.seconds(), 1e-9) * static_cast<double>(bins);
    const size_t bin = std::min(bins - 1, static_cast<size_t>(std::max(part, 0.0)));
    auto& of_segment = binned[run.segment];
    if (of_segment.empty()) of_segment.resize(bins);
    ++of_segment[bin].first;
    of_segment[bin].second += run.own;
  }
  nb::dict rows;
  for (size_t i = 0; i < binned.size(); ++i) {
    const Recording::Totals& totals = recording.segments()[i];
    if (!totals.count) continue;
    nb::dict row;
    set_totals(row, totals, clock);
    nb::list parts;
    for (size_t bin = 0; bin < binned[i].size(); ++bin)
      if (const auto& [count, own] = binned[i][bin]; count)
        parts.append(nb::make_tuple(bin, count, clock.length(static_cast<double>(own))));
    row["bins"] = parts;
    rows[nb::int_(recording.first() + static_cast<int64_t>(i))] = row;
  }
  return rows;
}

/// The cached segments at the end of the recording: (number, row of describe()).
nb::list alive(const Recording& recording) {
  nb::list rows;
  for (const std::weak_ptr<runtime::Family>& weak : std::vector(families()))
    if (const std::shared_ptr<runtime::Family> family = weak.lock())
      for (auto& [code, segment] : segments_of(*family))
        if (segment->recorded >= recording.first())
          rows.append(nb::make_tuple(segment->recorded, describe(code.get(), *segment)));
  return rows;
}

/// Ends the recording. Times are seconds since its start.
nb::dict stop_recording(size_t bins) {
  if (!open()) throw nb::value_error("no recording is under way");
  Recording::set_current(nullptr);
  const std::unique_ptr<Open> ended = std::move(open());
  const Clock clock(*ended);
  nb::dict result;
  result["seconds"] = clock.seconds();
  result["places"] = places(ended->recording, clock);
  result["runs"] = runs(ended->recording, clock, bins);
  result["runs_kept"] = ended->recording.runs().size();
  result["alive"] = alive(ended->recording);
  return result;
}

}  // namespace

PyObject* listener() { return open() ? open()->recording.listener() : nullptr; }

double seconds_recorded() { return Clock(*open()).seconds(); }

void RecordedCapture::comes_to(PyCodeObject* code, int line, int depth) {
  constexpr size_t kMost = 1 << 16;
  if (lines_.size() < kMost) lines_.push_back({Owned<PyCodeObject>::share(code), line, depth});
}

void RecordedCapture::add_to(nb::dict& event, Ticks start, Ticks own) const {
  nb::list lines;
  for (const Line& each : lines_)
    lines.append(nb::make_tuple(nb::borrow(reinterpret_cast<PyObject*>(each.code.get())), each.line, each.depth));
  const Clock clock(*open());
  event["lines"] = lines;
  event["start"] = clock.since_start(start);
  event["seconds"] = clock.length(static_cast<double>(own));
}

void bind_recording(nb::module_& m) {
  m.def("start_recording", start_recording, nb::arg("listener"));
  m.def("stop_recording", stop_recording, nb::arg("bins"));
}

}  // namespace gramme::api
