// Describes every cached segment of an entry only to list what has no description.
#include "api/portability.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/describe.h"
#include "portable/describe.h"
#include "runtime/entry.h"

namespace nb = nanobind;

namespace gramme::api {

nb::dict unportable(nb::object entry) {
  if (!runtime::is_entry(entry.ptr())) throw nb::type_error("not compiled by gramme");
  try {
    portable::Naming naming;
    nb::dict rows;
    for (const auto& [code, segment] : segments_of(*runtime::family_of(entry.ptr())))
      rows[nb::int_(segment->number)] =
          nb::cast(portable::why_not_portable(*segment, portable::describe(*segment, code.get(), naming)));
    return rows;
  } catch (const PythonError&) {
    throw nb::python_error();
  }
}

}  // namespace gramme::api
