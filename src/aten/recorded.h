// Shows what runs to PyTorch's profilers.
#pragma once
#include <memory>
#include <string>

namespace gramme::aten {

/// An entry of the profile: it begins with name() and ends with the object.
struct Recording;
struct EndRecording {
  void operator()(Recording* recording) const;
};
using RecordingPtr = std::unique_ptr<Recording, EndRecording>;

/// Null if no profiler listens.
RecordingPtr start_recording();
void name(Recording& recording, const std::string& name);

}  // namespace gramme::aten
