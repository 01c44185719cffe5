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

/// Who hears of captures while there is a recording, or null.
PyObject* listener();

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
  /// Before the backend gets the graph.
  static void graph(PyObject* module, PyObject* captured);
  /// Numbers the segment, which is null if the frame runs uncompiled.
  void end(PyCodeObject* code, int line, plan::Segment* segment, Ticks start, Ticks own, double backend_seconds);

 private:
  std::vector<Line> lines_;
};

/// Why none of the segments there could be used; a capture follows, or the limit is reached and none does.
void record_recompile(const runtime::FrameView& frame, const std::vector<std::string>& reasons);
void record_limit(const runtime::FrameView& frame, int limit, const std::string& reason);

}  // namespace gramme::api
