#include "metadata.h"

#define Py_BUILD_CORE 1
#define NEED_OPCODE_METADATA
#include <Python.h>
#include <opcode.h>

#include "cpython/features.h"

#if GRAMME_PYTHON_OPCODE_METADATA
#include <internal/pycore_opcode_metadata.h>

int frames_popped(int opcode, int arg) { return _PyOpcode_num_popped(opcode, arg); }
int frames_pushed(int opcode, int arg) { return _PyOpcode_num_pushed(opcode, arg); }
int frames_caches(int opcode) { return _PyOpcode_Caches[opcode]; }
#else
int frames_popped(int opcode, int arg) { return (void)opcode, (void)arg, -1; }
int frames_pushed(int opcode, int arg) { return (void)opcode, (void)arg, -1; }
int frames_caches(int opcode) { return (void)opcode, 0; }
#endif
