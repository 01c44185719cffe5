// Python numbers known only when the graph runs: arithmetic on them makes expressions or graph nodes.
#pragma once
#include <optional>

#include "protocol/protocol.h"

namespace gramme::protocol {

/// The number as a constant (borrowed), after specialising it and the numbers it was computed from. Ends the segment
/// for the given reason if it depends on tensor data.
PyObject* known_number(Trace& trace, value::Number* number, Reason reason);
/// The number's constant, or the value itself if it is no Number.
Value* known(Trace& trace, Value* seen, Reason reason = Reason::DataDependentValue);

/// The truth of a number that is an expression over symbols, decided and guarded; nullopt for others.
std::optional<bool> truth_of_expression(Trace& trace, value::Number* number);

/// The truth of a comparison if the intervals of its numbers decide it; guards tensor contents that they depend on.
std::optional<bool> truth_by_ranges(Trace& trace, value::Number* number);
/// The interval of a number, known or not.
meta::Interval range_of(Value* seen);
/// Records the comparison whose result the Number is.
void note_comparison(Trace& trace, const value::Number* number, int op, Value* left, Value* right);

/// The operand as an expression over symbols; null if it has none.
shape::Expr expression_of(Value* seen);
/// The Number for an expression that the program computes by `function`; null if it has no form or no present value.
Value* number_by(Trace& trace, shape::Expr e, PyObject* function, Value* left, Value* right = nullptr);

/// max() or min() of floats of which one is known only in the graph; null for others.
Value* number_extreme(Trace& trace, int op, PyObject* function, Value* left, Value* right);

/// math.pow() and math.sqrt() in the graph, for floats known only there, if they cannot raise; null otherwise.
Value* number_power(Trace& trace, PyObject* function, Value* base, Value* exponent);
Value* number_root(Trace& trace, PyObject* function, Value* operand);

/// For operands among which is a Number and no tensor.
Value* number_binary(Trace& trace, int op, Value* left, Value* right);
Value* number_compare(Trace& trace, int op, Value* left, Value* right);
Value* number_unary(Trace& trace, Unary op, value::Number* operand);

}  // namespace gramme::protocol
