// How much of the thread's C stack is left. CPython 3.11 counts levels, which says nothing about a small stack, nor
// about our own recursion, whose frames are larger than the evaluator's.
#pragma once
#include <cstddef>
#include <cstdint>

namespace gramme {

/// What has to be left of the stack for …
enum class Room {
  Capture,  // a step of a capture: the deepest of what PyTorch runs to infer metadata
  Call,     // a call of a Python function from C, and whatever the C functions in it need
  Hook,     // Python functions that use the stack only because their frames are asked about
};

/// The lowest address at which there is as much; 0 on a stack that is not the thread's own.
uintptr_t lowest_with(Room room);

/// True if there is as much. On a stack that is not the thread's own (of a coroutine library) nothing is known: yes.
/// Some 5 ns.
bool has_room(Room room);

/// The same where a no costs little: also on a stack that is not the thread's own, or that was made larger.
bool surely_has_room(Room room);

}  // namespace gramme
