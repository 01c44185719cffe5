// Binds gramme._C.capture_whole with the contract `export`: any graph break is an error.
#include "api/whole.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/capturer.h"
#include "runtime/whole.h"

namespace nb = nanobind;

namespace gramme::api {
namespace {

nb::object object(const Owned<>& known) { return known ? nb::borrow(known.get()) : nb::none(); }

nb::tuple row(const runtime::Change& change) {
  nb::list values;
  for (const Owned<>& value : change.values) values.append(object(value));
  return nb::make_tuple(plan::kind_name(change.kind), object(change.target), object(change.key), values, change.number);
}

nb::tuple capture_whole(nb::object function, nb::args arguments, nb::object backend, nb::list varies) {
  if (!PyFunction_Check(function.ptr())) throw nb::type_error("function: a Python function");
  trace::Contract contract = *trace::contract_named("export");
  contract.breaks = false;
  Options options{share(backend.ptr()), std::nullopt, false, contract, false};
  for (nb::handle entry : varies) {
    const nb::tuple pair = nb::cast<nb::tuple>(entry);
    options.varies.push_back({share(pair[0].ptr()), nb::cast<std::optional<size_t>>(pair[1])});
  }
  std::vector<PyObject*> values;
  for (nb::handle argument : arguments) values.push_back(argument.ptr());
  Capturer capturer(std::move(options));
  try {
    const runtime::Whole whole =
        runtime::capture_whole(reinterpret_cast<PyFunctionObject*>(function.ptr()), values, capturer);
    nb::list changes;
    for (const runtime::Change& change : whole.changes) changes.append(row(change));
    return nb::make_tuple(object(whole.result), changes);
  } catch (const PythonError&) {
    throw nb::python_error();
  }
}

}  // namespace

void bind_whole(nb::module_& m) {
  m.def("capture_whole", capture_whole, nb::arg("function"), nb::arg("arguments"), nb::kw_only(), nb::arg("backend"),
        nb::arg("varies"));
}

}  // namespace gramme::api
