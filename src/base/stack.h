// How much of the thread's C stack is left. CPython 3.11 counts levels, which says nothing about a small stack, nor
// about our own recursion, whose frames are larger than the evaluator's.
#pragma once
#include <cstddef>
#include <cstdint>

namespace gramme {

/// What must fit into the rest of the stack.
enum class Room {
  Capture,  // a step of a capture, with the deepest of PyTorch's calls that infer metadata
  Call,     // a call of a Python function from C, with the C functions that it calls
  Hook,     // Python calls that use the stack only because frames are offered to gramme
};

/// The lowest stack address that leaves this much room; 0 on a stack that is not the thread's own.
uintptr_t lowest_with(Room room);

/// True if this much room is left. Also true on a stack that is not the thread's own (a coroutine library's), whose
/// bounds are unknown. Some 5 ns.
bool has_room(Room room);

/// The same for callers whom a wrong false costs little: false also on a stack that is not the thread's own, or that
/// was enlarged.
bool surely_has_room(Room room);

}  // namespace gramme
