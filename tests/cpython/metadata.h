// What CPython's headers say of opcodes, for C++: the tables in them compile in C only.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/// Items of the value stack that an instruction of this base opcode takes and gives; negative: no such opcode.
int frames_popped(int opcode, int arg);
int frames_pushed(int opcode, int arg);
/// Code units of inline cache behind it.
int frames_caches(int opcode);

#ifdef __cplusplus
}
#endif
