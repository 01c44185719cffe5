// Precompiled for the rooms without torch that stand below the tracing rooms. It is included before every file there,
// so a file still names the headers it uses.
#pragma once

#include <Python.h>
//
//
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>
