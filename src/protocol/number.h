// Python numbers known only when the graph runs: arithmetic on them becomes graph nodes whose results are such numbers.
#pragma once
#include <optional>

#include "protocol/protocol.h"

namespace gramme::protocol {

/// The number as a constant (borrowed): it and the numbers it was computed from are specialised. Ends the segment for
/// the given reason when it depends on the data of tensors.
PyObject* known_number(Trace& trace, value::Number* number, Reason reason);
/// The number's constant, or the value itself if it is no Number.
Value* known(Trace& trace, Value* seen, Reason reason = Reason::DataDependentValue);

/// The truth of a number over symbols of sizes and ints, decided and guarded; none for others.
std::optional<bool> truth_of_expression(Trace& trace, value::Number* number);

/// The truth of a comparison, from the intervals of its numbers; where one is computed of a tensor's content, that is
/// guarded.
std::optional<bool> truth_by_ranges(Trace& trace, value::Number* number);
/// What a number lies between, also one that is known.
meta::Interval range_of(Value* seen);
/// The comparison that the Number stands for.
void note_comparison(Trace& trace, const value::Number* number, int op, Value* left, Value* right);

/// The operand as an expression over the symbols of sizes and ints; null if it is none.
shape::Expr expression_of(Value* seen);
/// What the program computes by the function, which is an expression; null if that has no form or no value now.
Value* number_by(Trace& trace, shape::Expr e, PyObject* function, Value* left, Value* right = nullptr);

/// max() or min() of floats of which only a run of the graph tells one; null of others.
Value* number_extreme(Trace& trace, int op, PyObject* function, Value* left, Value* right);

/// math.pow(), math.sqrt(): in the graph, of floats of which only a run of it tells one, where they cannot raise; null
/// elsewhere.
Value* number_power(Trace& trace, PyObject* function, Value* base, Value* exponent);
Value* number_root(Trace& trace, PyObject* function, Value* operand);

/// For operands of which at least one is a Number and none a tensor.
Value* number_binary(Trace& trace, int op, Value* left, Value* right);
Value* number_compare(Trace& trace, int op, Value* left, Value* right);
Value* number_unary(Trace& trace, Unary op, value::Number* operand);

}  // namespace gramme::protocol
