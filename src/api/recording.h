// gramme._C.start_recording and stop_recording: what gramme.record reads.
#pragma once
#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "plan/segment.h"
#include "runtime/capturer.h"
#include "runtime/recording.h"

namespace gramme::api {

void bind_recording(nanobind::module_& m);

/// The recording under way as a listener, or null.
PyObject* listener();

/// Since the recording under way began.
double seconds_recorded();

/// One capture as the listener hears of it.
class RecordedCapture {
 public:
  /// A line, where it differs from the line before.
  struct Line {
    Owned<PyCodeObject> code;
    int line, depth;
  };
  void begins() { lines_.clear(); }
  void comes_to(PyCodeObject* code, int line, int depth);
  /// The lines and when it was, for the recording under way.
  void add_to(nanobind::dict& event, Ticks start, Ticks own) const;

 private:
  std::vector<Line> lines_;
};

}  // namespace gramme::api
