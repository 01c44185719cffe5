// The unit in which CPython's code is counted.
#pragma once

namespace gramme {

/// Bytes of a unit of code: an instruction, or a word of its cache. CPython's functions count bytes.
constexpr int kCodeUnit = 2;

}  // namespace gramme
