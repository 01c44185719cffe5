// Floats that come out of data: arithmetic of them, and what makes whole numbers and bools of them.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// True if a run of the graph tells the float, and the program may go on with such.
bool is_data_float(Trace& trace, Value* seen);

/// What int(), math.floor(), math.ceil() and round() do.
enum class Whole : uint8_t { Truncate, Floor, Ceil, Round };

/// The whole number that a float out of data makes.
Value* data_whole(Trace& trace, Whole how, value::Number* number);

// Null of other operands, and where the graph cannot compute it.

/// Operations on numbers out of data; `plain`: the operator cannot raise, so a node of it will do.
Value* data_binary(Trace& trace, int op, Value* left, Value* right, bool plain);
Value* data_compare(Trace& trace, int op, Value* left, Value* right);
Value* data_negative(Trace& trace, Value* operand);
Value* data_absolute(Trace& trace, Value* operand);
/// max() or min() of floats: `op` is Py_GT or Py_LT.
Value* data_extreme(Trace& trace, int op, PyObject* function, Value* left, Value* right);
/// math.sqrt() for backends that compile.
Value* data_root(Trace& trace, Value* operand);
/// A function of Python numbers that gives the type, or raises.
Value* data_function(Trace& trace, PyObject* function, const Args& args, PyTypeObject* type);

}  // namespace gramme::protocol
