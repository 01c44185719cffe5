// Data-dependent floats: arithmetic, and conversions to whole numbers and bools.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// True if only a run of the graph knows the float, and graphs may compute with such floats.
bool is_data_float(Trace& trace, Value* seen);

/// The roundings of int(), math.floor(), math.ceil() and round().
enum class Whole : uint8_t { Truncate, Floor, Ceil, Round };

/// Converts a data-dependent float to a whole number.
Value* data_whole(Trace& trace, Whole how, value::Number* number);

// The functions below return null for other operands, and if the graph cannot compute the result.

/// A binary operation on data-dependent numbers. `plain`: the operator cannot raise, so its own node suffices.
Value* data_binary(Trace& trace, int op, Value* left, Value* right, bool plain);
Value* data_compare(Trace& trace, int op, Value* left, Value* right);
Value* data_negative(Trace& trace, Value* operand);
Value* data_absolute(Trace& trace, Value* operand);
/// max() or min() of floats: `op` is Py_GT or Py_LT.
Value* data_extreme(Trace& trace, int op, PyObject* function, Value* left, Value* right);
/// math.sqrt() for backends that compile.
Value* data_root(Trace& trace, Value* operand);
/// A function of Python numbers that returns `type` or raises.
Value* data_function(Trace& trace, PyObject* function, const Args& args, PyTypeObject* type);

}  // namespace gramme::protocol
