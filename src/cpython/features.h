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
/// The process has a table of its layouts, for debuggers.
#define GRAMME_PYTHON_DEBUG_OFFSETS (PY_VERSION_HEX >= 0x030D0000)
/// Code has its evaluator's constants (LOAD_COMMON_CONSTANT).
#define GRAMME_PYTHON_COMMON_CONSTANTS (PY_VERSION_HEX >= 0x030E0000)
/// locals() of a function is a new dict each time; earlier the frame has one.
#define GRAMME_PYTHON_NEW_LOCALS (PY_VERSION_HEX >= 0x030D0000)
/// Data is kept with code objects by functions of the unstable C API.
#define GRAMME_PYTHON_UNSTABLE_CODE_EXTRA (PY_VERSION_HEX >= 0x030C0000)
/// Each evaluator on the C stack says whether somebody traces.
#define GRAMME_PYTHON_EVALUATOR_TRACES (PY_VERSION_HEX < 0x030C0000)
/// The evaluator clears a frame that ends, and suspends a generator's; earlier its callers do.
#define GRAMME_PYTHON_EVALUATOR_ENDS (PY_VERSION_HEX >= 0x030C0000)
/// The exception that is set is one object; earlier a type, perhaps no object yet, and a traceback.
#define GRAMME_PYTHON_RAISED_OBJECT (PY_VERSION_HEX >= 0x030C0000)
/// Levels of recursion are counted for frames of Python code alone.
#define GRAMME_PYTHON_OWN_LEVELS (PY_VERSION_HEX >= 0x030C0000)
/// Each thread has its own word that asks the evaluator to stop, and CPython exports what does what was asked for.
#define GRAMME_PYTHON_OWN_BREAKER (PY_VERSION_HEX >= 0x030D0000)
/// A generator says whether it is suspended since it waits for another.
#define GRAMME_PYTHON_DELEGATING_STATE (PY_VERSION_HEX >= 0x030D0000)
/// A generator names its code; later its frame does.
#define GRAMME_PYTHON_GENERATOR_CODE (PY_VERSION_HEX < 0x030C0000)
/// A dict has a number that rises with each change of it. 3.13 has one, too, but what is stored into values that the
/// dict shares with an object does not raise it.
#define GRAMME_PYTHON_DICT_VERSIONS (PY_VERSION_HEX < 0x030D0000)
/// CPython tells of each change of a dict that somebody watches. 3.12 does, too, but has sound versions.
#define GRAMME_PYTHON_DICT_WATCHERS (PY_VERSION_HEX >= 0x030D0000)
/// One word before an instance holds its dict or, marked by its low bit, its values.
#define GRAMME_PYTHON_VALUES_OR_DICT (PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000)
/// The values lie in the instance, and its dict, once made, shares them.
#define GRAMME_PYTHON_VALUES_INSIDE (PY_VERSION_HEX >= 0x030D0000)
/// The subclasses of CPython's own types are kept by the interpreter.
#define GRAMME_PYTHON_STATIC_SUBCLASSES (PY_VERSION_HEX >= 0x030C0000)
/// An int says by a tag whether it has one digit; earlier by its size.
#define GRAMME_PYTHON_COMPACT_INTS (PY_VERSION_HEX >= 0x030C0000)
/// sum() of floats compensates for what additions lose.
#define GRAMME_PYTHON_SUM_COMPENSATES (PY_VERSION_HEX >= 0x030C0000)
/// Iterators of itertools have a __setstate__ that does not warn.
#define GRAMME_PYTHON_ITERTOOLS_STATE (PY_VERSION_HEX < 0x030C0000)
/// itertools.cycle has a flag for what it saves.
#define GRAMME_PYTHON_CYCLE_FLAG (PY_VERSION_HEX < 0x030E0000)
/// list.sort() takes equal items into descending runs, too, for which it compares both ways.
#define GRAMME_PYTHON_SORT_KNOWS_EQUALS (PY_VERSION_HEX >= 0x030D0000)
/// Slices have a hash.
#define GRAMME_PYTHON_SLICES_HASH (PY_VERSION_HEX >= 0x030C0000)
/// The TypeError of a key without a hash says whether it was for a dict or a set.
#define GRAMME_PYTHON_KEYS_ARE_FOR (PY_VERSION_HEX >= 0x030E0000)
/// The texts of errors change with each version: of which minor one they are, for nothing else.
#define GRAMME_PYTHON_TEXTS PY_MINOR_VERSION
/// An iterator over a range counts; later it moves the range's start.
#define GRAMME_PYTHON_RANGE_ITERATOR_COUNTS (PY_VERSION_HEX < 0x030C0000)
/// _thread._local keeps the threads' dicts itself; earlier each thread's own dict has a holder of it.
#define GRAMME_PYTHON_LOCAL_HAS_DICTS (PY_VERSION_HEX >= 0x030D0000)
/// BINARY_OP lets go of its left operand first, unlike instructions around it.
#define GRAMME_PYTHON_BINARY_DROPS_LEFT (PY_VERSION_HEX >= 0x030E0000 && PY_VERSION_HEX < 0x030F0000)
/// The frame of a Python function that is called takes over the references to its arguments, and CPython exports the
/// function that begins such a frame.
#define GRAMME_PYTHON_MOVES_ARGUMENTS (PY_VERSION_HEX >= 0x030E0000)
/// CPython exports what its evaluator calls for operators, patterns, exceptions' classes and errors.
#define GRAMME_PYTHON_EXPORTED_HELPERS (PY_VERSION_HEX >= 0x030D0000)
/// And for names, imports and what await drives.
#define GRAMME_PYTHON_EXPORTED_NAMES (PY_VERSION_HEX >= 0x030E0000)
/// Imports may wait until the name is used.
#define GRAMME_PYTHON_LAZY_IMPORTS (PY_VERSION_HEX >= 0x030F0000)
/// At a backward jump signals are looked for when it is done.
#define GRAMME_PYTHON_JUMPS_FIRST (PY_VERSION_HEX < 0x030D0000)
/// `with` looks its methods up by an instruction of their own.
#define GRAMME_PYTHON_SPECIAL_METHODS (PY_VERSION_HEX >= 0x030E0000)
/// t-strings.
#define GRAMME_PYTHON_TEMPLATES (PY_VERSION_HEX >= 0x030E0000)
/// Functions have type parameters.
#define GRAMME_PYTHON_TYPE_PARAMETERS (PY_VERSION_HEX >= 0x030C0000)
/// Functions make their annotations when they are asked for.
#define GRAMME_PYTHON_ANNOTATE (PY_VERSION_HEX >= 0x030E0000)
/// Class bodies give type.__new__ a cell (__classdictcell__) that it fills with the dict of the class made.
#define GRAMME_PYTHON_CLASS_DICT_CELL (PY_VERSION_HEX >= 0x030C0000)
/// What makes a tuple of an iterable does not ask how many items there will be.
#define GRAMME_PYTHON_TUPLES_WITHOUT_HINT (PY_VERSION_HEX >= 0x030E0000)
/// The collector does not look at a new tuple of objects that are in no cycle.
#define GRAMME_PYTHON_ATOMIC_TUPLES (PY_VERSION_HEX >= 0x030E0000)
/// It can be asked whether the object of a weak reference has died, without a reference to it.
#define GRAMME_PYTHON_WEAKREF_IS_DEAD (PY_VERSION_HEX >= 0x030E0000)
/// What makes a slice for an item keeps its operands until the end.
#define GRAMME_PYTHON_SLICES_LEAVE_OPERANDS (PY_VERSION_HEX >= 0x030F0000)
/// close() of a generator gives what its function returned.
#define GRAMME_PYTHON_CLOSE_RETURNS (PY_VERSION_HEX >= 0x030D0000)
/// classmethod binds what it wraps by that one's own __get__; later to the class, whatever it is.
#define GRAMME_PYTHON_CLASSMETHODS_CHAIN (PY_VERSION_HEX < 0x030D0000)
/// A functools.partial in a class is bound to instances, and may leave places open (Placeholder).
#define GRAMME_PYTHON_PARTIALS_BIND (PY_VERSION_HEX >= 0x030E0000)
/// ~ of a bool warns.
#define GRAMME_PYTHON_BOOL_INVERSION_WARNS (PY_VERSION_HEX >= 0x030C0000)
