// Names for the differences between versions of CPython. Only this file uses the version's number; other code tests a
// feature's name, by #if where it would not compile otherwise.
#pragma once
#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x03100000
#error "no support for this version of Python: 3.11 to 3.15"
#endif
#ifdef Py_GIL_DISABLED
#error "no support for free-threaded builds of Python"
#endif

/// The thread's current frame and tracing flag are in a _PyCFrame on the C stack; later in the thread state.
#define GRAMME_PYTHON_CFRAME (PY_VERSION_HEX < 0x030D0000)
/// CPython's header of frames is for its core only.
#define GRAMME_PYTHON_CORE_FRAMES (PY_VERSION_HEX >= 0x030C0000)
/// The thread's chain of frames includes frames that belong neither to functions nor to generators.
#define GRAMME_PYTHON_FOREIGN_FRAMES (PY_VERSION_HEX >= 0x030C0000)
/// A frame points to its instruction; earlier to the code unit before the next one.
#define GRAMME_PYTHON_INSTR_PTR (PY_VERSION_HEX >= 0x030D0000)
/// Slots hold _PyStackRef: an owned or borrowed reference, or a small integer; earlier PyObject*.
#define GRAMME_PYTHON_TAGGED_SLOTS (PY_VERSION_HEX >= 0x030E0000)
/// CPython exports the functions with which its evaluator begins a frame on moved arguments, and clears one.
#define GRAMME_PYTHON_EXPORTED_FRAMES (PY_VERSION_HEX >= 0x030D0000)
/// Trace and profile functions are tools of sys.monitoring, which instruments the code.
#define GRAMME_PYTHON_MONITORING (PY_VERSION_HEX >= 0x030C0000)
/// Iterators are stored on the stack in pairs: with an index, or with NULL.
#define GRAMME_PYTHON_ITERATOR_PAIRS (PY_VERSION_HEX >= 0x030F0000)
/// The thread state tells whether a generator's frame yielded or returned.
#define GRAMME_PYTHON_YIELD_FLAG (PY_VERSION_HEX >= 0x030F0000)

/// The table of instructions, written by tools/make_opcodes.py.
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
/// The runtime has a table of its layouts for debuggers.
#define GRAMME_PYTHON_DEBUG_OFFSETS (PY_VERSION_HEX >= 0x030D0000)
/// Code uses constants of the evaluator (LOAD_COMMON_CONSTANT).
#define GRAMME_PYTHON_COMMON_CONSTANTS (PY_VERSION_HEX >= 0x030E0000)
/// locals() of a function is a new dict each time; earlier the frame has one.
#define GRAMME_PYTHON_NEW_LOCALS (PY_VERSION_HEX >= 0x030D0000)
/// Functions of the unstable C API keep data with code objects.
#define GRAMME_PYTHON_UNSTABLE_CODE_EXTRA (PY_VERSION_HEX >= 0x030C0000)
/// Each evaluator on the C stack has a tracing flag.
#define GRAMME_PYTHON_EVALUATOR_TRACES (PY_VERSION_HEX < 0x030C0000)
/// The evaluator clears a frame that ends, and suspends a generator's; earlier its callers do.
#define GRAMME_PYTHON_EVALUATOR_ENDS (PY_VERSION_HEX >= 0x030C0000)
/// The set exception is one object; earlier a type, a value that may not be an exception yet, and a traceback.
#define GRAMME_PYTHON_RAISED_OBJECT (PY_VERSION_HEX >= 0x030C0000)
/// Python frames have a recursion count of their own.
#define GRAMME_PYTHON_OWN_LEVELS (PY_VERSION_HEX >= 0x030C0000)
/// Each thread has its own word that asks the evaluator to stop, and CPython exports the function that handles the
/// requests.
#define GRAMME_PYTHON_OWN_BREAKER (PY_VERSION_HEX >= 0x030D0000)
/// A generator's state tells whether it waits for another one.
#define GRAMME_PYTHON_DELEGATING_STATE (PY_VERSION_HEX >= 0x030D0000)
/// A generator refers to its code; later its frame does.
#define GRAMME_PYTHON_GENERATOR_CODE (PY_VERSION_HEX < 0x030C0000)
/// A dict has a version number that each change raises. 3.13 has one too, but stores into values that a dict shares
/// with an object do not raise it.
#define GRAMME_PYTHON_DICT_VERSIONS (PY_VERSION_HEX < 0x030D0000)
/// CPython reports each change of a watched dict. 3.12 does too, but its version numbers are reliable.
#define GRAMME_PYTHON_DICT_WATCHERS (PY_VERSION_HEX >= 0x030D0000)
/// One word before an instance holds its dict or, marked by the low bit, its values.
#define GRAMME_PYTHON_VALUES_OR_DICT (PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000)
/// The values are inside the instance, and its dict, once made, shares them.
#define GRAMME_PYTHON_VALUES_INSIDE (PY_VERSION_HEX >= 0x030D0000)
/// The interpreter keeps the subclasses of CPython's own types.
#define GRAMME_PYTHON_STATIC_SUBCLASSES (PY_VERSION_HEX >= 0x030C0000)
/// An int's tag tells whether it has one digit; earlier its size.
#define GRAMME_PYTHON_COMPACT_INTS (PY_VERSION_HEX >= 0x030C0000)
/// sum() of floats uses compensated summation.
#define GRAMME_PYTHON_SUM_COMPENSATES (PY_VERSION_HEX >= 0x030C0000)
/// Iterators of itertools have a __setstate__ that does not warn.
#define GRAMME_PYTHON_ITERTOOLS_STATE (PY_VERSION_HEX < 0x030C0000)
/// itertools.cycle has a flag for what it saves.
#define GRAMME_PYTHON_CYCLE_FLAG (PY_VERSION_HEX < 0x030E0000)
/// list.sort() accepts equal items in descending runs, for which it compares both ways.
#define GRAMME_PYTHON_SORT_KNOWS_EQUALS (PY_VERSION_HEX >= 0x030D0000)
/// Slices have a hash.
#define GRAMME_PYTHON_SLICES_HASH (PY_VERSION_HEX >= 0x030C0000)
/// The TypeError for an unhashable key tells whether it was for a dict or a set.
#define GRAMME_PYTHON_KEYS_ARE_FOR (PY_VERSION_HEX >= 0x030E0000)
/// The minor version for texts of errors, which change with each version. For nothing else.
#define GRAMME_PYTHON_TEXTS PY_MINOR_VERSION
/// An iterator over a range has an index; later it moves the range's start.
#define GRAMME_PYTHON_RANGE_ITERATOR_COUNTS (PY_VERSION_HEX < 0x030C0000)
/// _thread._local keeps the dicts of all threads; earlier each thread's own dict holds them.
#define GRAMME_PYTHON_LOCAL_HAS_DICTS (PY_VERSION_HEX >= 0x030D0000)
/// BINARY_OP drops its left operand first, unlike other instructions.
#define GRAMME_PYTHON_BINARY_DROPS_LEFT (PY_VERSION_HEX >= 0x030E0000 && PY_VERSION_HEX < 0x030F0000)
/// The frame of a called Python function takes over the references to its arguments, and CPython exports the function
/// that begins such a frame.
#define GRAMME_PYTHON_MOVES_ARGUMENTS (PY_VERSION_HEX >= 0x030E0000)
/// CPython exports the helpers of its evaluator for operators, patterns, exception classes and errors.
#define GRAMME_PYTHON_EXPORTED_HELPERS (PY_VERSION_HEX >= 0x030D0000)
/// It also exports those for names, imports and awaitables.
#define GRAMME_PYTHON_EXPORTED_NAMES (PY_VERSION_HEX >= 0x030E0000)
/// Imports may wait until the name is used.
#define GRAMME_PYTHON_LAZY_IMPORTS (PY_VERSION_HEX >= 0x030F0000)
/// A backward jump checks for signals after the jump.
#define GRAMME_PYTHON_JUMPS_FIRST (PY_VERSION_HEX < 0x030D0000)
/// `with` looks up its methods by instructions of their own.
#define GRAMME_PYTHON_SPECIAL_METHODS (PY_VERSION_HEX >= 0x030E0000)
/// t-strings.
#define GRAMME_PYTHON_TEMPLATES (PY_VERSION_HEX >= 0x030E0000)
/// Functions have type parameters.
#define GRAMME_PYTHON_TYPE_PARAMETERS (PY_VERSION_HEX >= 0x030C0000)
/// Functions compute their annotations when these are read.
#define GRAMME_PYTHON_ANNOTATE (PY_VERSION_HEX >= 0x030E0000)
/// Class bodies give type.__new__ a cell (__classdictcell__) that it fills with the dict of the class made.
#define GRAMME_PYTHON_CLASS_DICT_CELL (PY_VERSION_HEX >= 0x030C0000)
/// Making a tuple from an iterable does not ask for its length hint.
#define GRAMME_PYTHON_TUPLES_WITHOUT_HINT (PY_VERSION_HEX >= 0x030E0000)
/// The collector does not track a new tuple of objects that cannot be in a cycle.
#define GRAMME_PYTHON_ATOMIC_TUPLES (PY_VERSION_HEX >= 0x030E0000)
/// The C API tells whether a weak reference's object has died, without making a reference.
#define GRAMME_PYTHON_WEAKREF_IS_DEAD (PY_VERSION_HEX >= 0x030E0000)
/// Instructions that make a slice for a subscript keep their operands until the end.
#define GRAMME_PYTHON_SLICES_LEAVE_OPERANDS (PY_VERSION_HEX >= 0x030F0000)
/// A generator's close() returns its function's result.
#define GRAMME_PYTHON_CLOSE_RETURNS (PY_VERSION_HEX >= 0x030D0000)
/// classmethod binds by the __get__ of the wrapped object; later it makes a method bound to the class.
#define GRAMME_PYTHON_CLASSMETHODS_CHAIN (PY_VERSION_HEX < 0x030D0000)
/// A functools.partial in a class is bound to instances, and may leave places open (Placeholder).
#define GRAMME_PYTHON_PARTIALS_BIND (PY_VERSION_HEX >= 0x030E0000)
/// ~ of a bool warns.
#define GRAMME_PYTHON_BOOL_INVERSION_WARNS (PY_VERSION_HEX >= 0x030C0000)
