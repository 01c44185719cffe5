#include "api/captured.h"

#include <nanobind/stl/shared_ptr.h>

namespace nb = nanobind;

namespace gramme::api {
namespace {

/// A C++ function's PythonError as nanobind's.
template <class Body>
nb::object guarded(Body body) {
  try {
    return nb::steal(body().release());
  } catch (const PythonError&) {
    throw nb::python_error();
  }
}

}  // namespace

CapturedForPython::CapturedForPython(const trace::Trace& trace, const plan::GuardDescription& guards)
    : captured_(std::make_shared<backend::Captured>(trace, guards)), object_(nb::cast(captured_)) {}

void bind_captured(nb::module_& m) {
  using backend::Captured;
  nb::class_<Captured>(m, "Captured")
      .def_prop_ro("has_numbers", &Captured::has_numbers)
      .def_prop_ro("has_aliased_writes", &Captured::has_aliased_writes)
      .def("sources", [](const Captured& self) { return guarded([&] { return self.sources(); }); })
      .def(
          "examples",
          [](const Captured& self, nb::object mode) { return guarded([&] { return self.examples(mode.ptr()); }); },
          nb::arg("mode"))
      .def("freeze", &Captured::freeze, nb::arg("index"));
}

}  // namespace gramme::api
