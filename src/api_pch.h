// Precompiled for the files of src/api that see no torch headers. It is included before every file there, so a file
// still names the headers it uses.
#pragma once

#include "tracing_pch.h"
//
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
