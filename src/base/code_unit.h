// The unit of CPython's bytecode: positions in code are counted in these.
#pragma once

namespace gramme {

/// Bytes of a unit of code: an instruction, or a word of its cache. CPython's functions count bytes.
constexpr int kCodeUnit = 2;

}  // namespace gramme
