// Describes cached segments for explain() and reports.
#pragma once
#include <nanobind/nanobind.h>

#include <utility>
#include <vector>

#include "runtime/table.h"

namespace gramme::api {

/// The families of all existing entries.
std::vector<std::weak_ptr<runtime::Family>>& families();

/// The cached segments with the code objects in which they begin: a copy, since finalizers may change the tables.
std::vector<std::pair<Owned<PyCodeObject>, runtime::SegmentPtr>> segments_of(const runtime::Family& family);

/// The fields of gramme.Segment, as far as C++ knows them.
nanobind::dict describe(PyCodeObject* code, const plan::Segment& segment);

}  // namespace gramme::api
