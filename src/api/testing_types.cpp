// Test-only bindings of tensor types: equal descriptions must give the same object.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/testing.h"
#include "aten/python.h"
#include "aten/spec.h"
#include "base/gil.h"
#include "meta/record.h"

namespace nb = nanobind;

namespace gramme::api {
namespace {

struct Type {
  const aten::TensorType* type;
};

Type below_autograd(nb::handle tensor, bool whole) {
  const at::Tensor& self = aten::tensor_of(tensor.ptr());
  GilReleased released;
  return {aten::type_below_autograd(self, whole)};
}

Type wrapping(Type outside, const std::vector<Type>& parts, nb::handle context) {
  aten::TensorDescription type = *outside.type;
  for (const Type& part : parts) type.parts.push_back(part.type);
  type.context = context.is_none() ? nullptr : context.ptr();
  return {aten::interned(std::move(type))};
}

}  // namespace

void bind_types_testing(nb::module_& m) {
  nb::class_<Type>(m, "TensorType")
      .def("__eq__", [](Type a, Type b) { return a.type == b.type; })
      .def("__hash__", [](Type t) { return t.type->id; })
      .def("__repr__", [](Type t) { return t.type->print(); })
      .def_prop_ro("id", [](Type t) { return t.type->id; })
      .def_prop_ro("symbolic", [](Type t) { return t.type->symbolic; })
      .def_prop_ro("opaque", [](Type t) { return t.type->opaque; })
      .def("wrapping", wrapping, nb::arg("parts"), nb::arg("context") = nb::none());
  m.def("guarded_type", [](nb::handle tensor) { return Type{aten::tensor_spec(tensor.ptr())->tensor}; });
  m.def("varying_type", [](nb::handle tensor, uint64_t sizes, uint64_t strides) {
    return Type{aten::with_varying(*aten::tensor_spec(tensor.ptr()), sizes, strides)->tensor};
  });
  m.def("type_without_autograd",
        [](nb::handle tensor) { return Type{aten::without_autograd(*aten::tensor_spec(tensor.ptr()))->tensor}; });
  m.def("recorded_type", [](nb::handle tensor) { return Type{meta::record_of(tensor.ptr())}; });
  m.def("realized_type",
        [](nb::handle tensor) { return Type{meta::record_of(tensor.ptr(), *aten::tensor_spec(tensor.ptr()))}; });
  m.def("type_below_autograd", below_autograd, nb::arg("tensor"), nb::arg("whole") = true);
}

}  // namespace gramme::api
