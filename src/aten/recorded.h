// Profilers that listen to what runs.
#pragma once
#include <memory>
#include <string>

namespace gramme::aten {

/// A record of what runs from naming it to its end.
struct Recording;
struct EndRecording {
  void operator()(Recording* recording) const;
};
using RecordingPtr = std::unique_ptr<Recording, EndRecording>;

/// Null where nobody listens.
RecordingPtr start_recording();
void name(Recording& recording, const std::string& name);

}  // namespace gramme::aten
