// Passes backend::Captured to Python.
#pragma once
#include <nanobind/nanobind.h>

#include "backend/captured.h"

namespace gramme::api {

void bind_captured(nanobind::module_& m);

/// A Captured whose Python object may outlive it; using the object later raises.
class CapturedForPython {
 public:
  /// The arguments must live as long as this object. The guards are those that the segment has now.
  CapturedForPython(const graph::Graph& graph, const backend::HandedOver& record, const backend::CallInputs& inputs,
                    const plan::Segment& segment);
  ~CapturedForPython() { captured_->close(); }
  CapturedForPython(const CapturedForPython&) = delete;

  PyObject* object() const { return object_.ptr(); }
  const backend::Captured& operator*() const { return *captured_; }

 private:
  std::shared_ptr<backend::Captured> captured_;
  nanobind::object object_;
};

}  // namespace gramme::api
