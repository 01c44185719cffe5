// Modes of the thread under which nothing is captured.
#pragma once

namespace gramme::aten {

/// May operators be captured now? Not under a torch function or dispatch mode, which hears of each and may do anything
/// with it, not inside a functorch transform, and not inside a level of forward AD, whose tangents no guard tells
/// apart.
bool can_capture();

}  // namespace gramme::aten
