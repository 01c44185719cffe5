// backend::Captured as a Python object.
#pragma once
#include <nanobind/nanobind.h>

#include "backend/captured.h"

namespace gramme::api {

void bind_captured(nanobind::module_& m);

/// A Captured that Python code may keep longer than it can be asked.
class CapturedForPython {
 public:
  CapturedForPython(const trace::Trace& trace, const plan::Segment& segment);
  ~CapturedForPython() { captured_->close(); }
  CapturedForPython(const CapturedForPython&) = delete;

  PyObject* object() const { return object_.ptr(); }
  const backend::Captured& operator*() const { return *captured_; }

 private:
  std::shared_ptr<backend::Captured> captured_;
  nanobind::object object_;
};

}  // namespace gramme::api
