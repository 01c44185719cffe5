// What differs between the versions of CPython, by what it is. The only place that asks for the version's number; code
// asks for a feature, and where it compiles only with one, by these names.
#pragma once
#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x03100000
#error "no support for this version of Python: 3.11 to 3.15"
#endif
#ifdef Py_GIL_DISABLED
#error "no support for free-threaded builds of Python"
#endif

/// There is a folder of src/cpython for it; of the others only what is shared is known.
#define GRAMME_PYTHON_IS_311 (PY_VERSION_HEX < 0x030C0000)

/// The thread's frames hang on a _PyCFrame of the C stack, which says whether somebody traces; later on the thread
/// itself.
#define GRAMME_PYTHON_CFRAME (PY_VERSION_HEX < 0x030D0000)
/// CPython's header of frames is for its core alone.
#define GRAMME_PYTHON_CORE_FRAMES (PY_VERSION_HEX >= 0x030C0000)
/// Frames of other owners than functions and generators hang between the thread's.
#define GRAMME_PYTHON_FOREIGN_FRAMES (PY_VERSION_HEX >= 0x030C0000)
/// A frame points to its instruction; earlier to the code unit before the next one.
#define GRAMME_PYTHON_INSTR_PTR (PY_VERSION_HEX >= 0x030D0000)
/// Slots hold _PyStackRef: a reference of their own, somebody else's, or a small integer; earlier PyObject*.
#define GRAMME_PYTHON_TAGGED_SLOTS (PY_VERSION_HEX >= 0x030E0000)
/// CPython exports what its evaluator uses for frames: begin one on arguments that it takes over, clear one.
#define GRAMME_PYTHON_EXPORTED_FRAMES (PY_VERSION_HEX >= 0x030D0000)
/// CPython's headers say how many items an instruction takes and gives.
#define GRAMME_PYTHON_OPCODE_METADATA (PY_VERSION_HEX >= 0x030D0000)
/// Trace and profile functions are tools of sys.monitoring, whose events are written into the code.
#define GRAMME_PYTHON_MONITORING (PY_VERSION_HEX >= 0x030C0000)
/// Iterators lie on the stack in pairs: with an index, or nothing.
#define GRAMME_PYTHON_ITERATOR_PAIRS (PY_VERSION_HEX >= 0x030F0000)
/// The thread says whether what a generator's frame gave was yielded.
#define GRAMME_PYTHON_YIELD_FLAG (PY_VERSION_HEX >= 0x030F0000)

/// What the instructions of its code are; tools/make_opcodes.py writes it.
#if PY_VERSION_HEX < 0x030C0000
#define GRAMME_PYTHON_OPCODES "cpython/opcodes/311.def"
#elif PY_VERSION_HEX < 0x030D0000
#define GRAMME_PYTHON_OPCODES "cpython/opcodes/312.def"
#elif PY_VERSION_HEX < 0x030E0000
#define GRAMME_PYTHON_OPCODES "cpython/opcodes/313.def"
#elif PY_VERSION_HEX < 0x030F0000
#define GRAMME_PYTHON_OPCODES "cpython/opcodes/314.def"
#else
#define GRAMME_PYTHON_OPCODES "cpython/opcodes/315.def"
#endif
/// Code has its evaluator's constants (LOAD_COMMON_CONSTANT).
#define GRAMME_PYTHON_COMMON_CONSTANTS (PY_VERSION_HEX >= 0x030E0000)
/// locals() of a function is a new dict each time; earlier the frame has one.
#define GRAMME_PYTHON_NEW_LOCALS (PY_VERSION_HEX >= 0x030D0000)
/// Data is kept with code objects by functions of the unstable C API.
#define GRAMME_PYTHON_UNSTABLE_CODE_EXTRA (PY_VERSION_HEX >= 0x030C0000)
