// Segments as rows for Python: what explain() and reports show.
#pragma once
#include <nanobind/nanobind.h>

#include <utility>
#include <vector>

#include "runtime/table.h"

namespace gramme::api {

/// Families of all living entries.
std::vector<std::weak_ptr<runtime::Family>>& families();

/// What is cached now, with the code objects in which it begins. Finalizers may change the tables meanwhile.
std::vector<std::pair<Owned<PyCodeObject>, runtime::SegmentPtr>> segments_of(const runtime::Family& family);

/// The fields of gramme.Segment, as far as C++ knows them.
nanobind::dict describe(PyCodeObject* code, const plan::Segment& segment);

}  // namespace gramme::api
