// gramme._C.start_recording and stop_recording, which gramme.record calls.
#pragma once
#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "plan/segment.h"
#include "runtime/capturer.h"
#include "runtime/recording.h"

namespace gramme::api {

void bind_recording(nanobind::module_& m);

/// The running recording's listener; null if there is none.
PyObject* listener();

/// Seconds since the running recording began.
double seconds_recorded();

/// One capture's lines and times for the recording.
class RecordedCapture {
 public:
  /// A line that differs from the one before.
  struct Line {
    Owned<PyCodeObject> code;
    int line, depth;
  };
  void begins() { lines_.clear(); }
  void comes_to(PyCodeObject* code, int line, int depth);
  /// Adds lines and times to the event for the running recording.
  void add_to(nanobind::dict& event, Ticks start, Ticks own) const;

 private:
  std::vector<Line> lines_;
};

}  // namespace gramme::api
