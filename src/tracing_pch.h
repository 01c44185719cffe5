// Precompiled for the tracing rooms (GRAMME_TRACING_ROOMS in CMakeLists.txt): parsing what all of them see costs three
// of the five seconds a file took. A change to one of these headers compiles all of them anew, as it would without.
#pragma once

#include "std_pch.h"
//
#include "protocol/protocol.h"
