// Starts a record of PyTorch's profiler only if somebody listens, so that an unprofiled run pays one check.
#include "aten/recorded.h"

#include <ATen/record_function.h>

namespace gramme::aten {

struct Recording {
  std::string name = {};  // listeners may read it at the end
  at::RecordFunction function;
};

void EndRecording::operator()(Recording* recording) const { delete recording; }

RecordingPtr start_recording() {
  auto listeners = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
  if (!listeners) return nullptr;
  return RecordingPtr(new Recording{{}, at::RecordFunction(std::move(*listeners))});
}

void name(Recording& recording, const std::string& name) {
  recording.name = name;
  recording.function.before(recording.name);
}

}  // namespace gramme::aten
