// The Python class Captured: what a backend may ask about a captured graph.
#include "api/captured.h"

#include <nanobind/stl/shared_ptr.h>

#include "aten/classes.h"
#include "aten/spec.h"
#include "torch/option.h"

namespace nb = nanobind;

namespace gramme::api {
namespace {

/// Calls a function of gramme, and turns its PythonError into nanobind's.
template <class Body>
nb::object guarded(Body body) {
  try {
    return nb::steal(body().release());
  } catch (const PythonError&) {
    throw nb::python_error();
  }
}

/// A key of the tensor's metadata: its type and dispatch keys. None for a tensor whose sizes only its class knows.
nb::object tensor_type(nb::handle tensor) {
  if (!aten::is_tensor(tensor.ptr())) throw nb::type_error("not a tensor");
  const aten::TensorSpec& spec = *aten::tensor_spec(tensor.ptr());
  if (spec.tensor->opaque) return nb::none();
  return nb::make_tuple(spec.tensor->id, spec.keys);
}

}  // namespace

CapturedForPython::CapturedForPython(const graph::Graph& graph, const backend::HandedOver& record,
                                     const backend::CallInputs& inputs, const plan::Segment& segment)
    : captured_(std::make_shared<backend::Captured>(
          backend::Captured::Subject{&graph, &record, &inputs, &segment.guards.description(), &segment.ending},
          segment.compile_id)),
      object_(nb::cast(captured_)) {}

void bind_captured(nb::module_& m) {
  m.def("tensor_type", tensor_type, nb::arg("tensor"));
  using backend::Captured;
  using backend::Examples;
  nb::class_<Examples>(m, "Examples")
      .def(
          "fakes",
          [](const Examples& self, nb::object mode, nb::list values) {
            return guarded([&] { return self.fakes(mode.ptr(), values.ptr()); });
          },
          nb::arg("mode"), nb::arg("values"));
  nb::class_<Captured>(m, "Captured")
      .def_prop_ro("has_numbers", &Captured::has_numbers)
      .def_prop_ro("has_symbols", &Captured::has_symbols)
      .def_prop_ro("shares_regions",
                   [](const Captured&) {
                     static Option option(of_torch::DynamoConfig, "use_graph_deduplication");
                     return guarded([] { return share(option.is_set(false) ? Py_True : Py_False); });
                   })
      .def_prop_ro("has_unbacked", &Captured::has_unbacked)
      .def_prop_ro("writes_inputs", &Captured::writes_inputs)
      .def_prop_ro("has_aliased_writes", &Captured::has_aliased_writes)
      .def_prop_ro("uses_what_it_writes", &Captured::uses_what_it_writes)
      .def_prop_ro("records_gradients", &Captured::records_gradients)
      .def("sources", [](const Captured& self) { return guarded([&] { return self.sources(); }); })
      .def("names_read_later", [](const Captured& self) { return guarded([&] { return self.names_read_later(); }); })
      .def("places_read_later", [](const Captured& self) { return guarded([&] { return self.places_read_later(); }); })
      .def("symbols", [](Captured& self) { return guarded([&] { return self.symbols(); }); })
      .def(
          "sizes", [](Captured& self, nb::list values) { return guarded([&] { return self.sizes(values.ptr()); }); },
          nb::arg("values"))
      .def("symbol_sources", [](const Captured& self) { return guarded([&] { return self.symbol_sources(); }); })
      .def("guarded_sources", [](const Captured& self) { return guarded([&] { return self.guarded_sources(); }); })
      .def(
          "conditions",
          [](const Captured& self, nb::list values) { return guarded([&] { return self.conditions(values.ptr()); }); },
          nb::arg("values"))
      .def("reason", [](const Captured& self) { return guarded([&] { return self.reason(); }); })
      .def("examples", &Captured::examples)
      .def_prop_ro(
          "compile_id",
          [](const Captured& self) { return nb::make_tuple(self.compile_id().frame, self.compile_id().recompile); })
      .def_prop_ro("attempt", &Captured::attempt)
      .def("freeze", &Captured::freeze, nb::arg("index"))
      .def(
          "require",
          [](Captured& self, nb::list expressions, nb::dict names) {
            guarded([&] { return self.require(expressions.ptr(), names.ptr()), share(Py_None); });
          },
          nb::arg("expressions"), nb::arg("names"))
      .def(
          "require_range",
          [](Captured& self, int64_t symbol, nb::handle lowest, nb::handle highest) {
            guarded([&] { return self.require_range(symbol, lowest.ptr(), highest.ptr()), share(Py_None); });
          },
          nb::arg("symbol"), nb::arg("lowest").none(), nb::arg("highest").none())
      .def("specialize", &Captured::specialize, nb::arg("symbol"))
      .def_prop_ro("has_constants", [](const Captured& self) { return !self.constants().empty(); })
      .def("restart", &Captured::restart);
}

}  // namespace gramme::api
