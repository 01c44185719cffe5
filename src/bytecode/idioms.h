// Recognises statements in several instructions together, by the forms that CPython's compiler gives them. No other
// file looks at an instruction's neighbours.
#pragma once
#include <functional>
#include <optional>

#include "bytecode/code.h"

namespace gramme::bytecode {

/// A conditional jump with exactly one side that certainly raises.
struct Assertion {
  bool holds;     // the condition's value that does not raise
  int text = -1;  // of `assert condition, "text"`: index into co_consts
};
/// None if the jump is not of this form, or leads backward: a loop would not end.
std::optional<Assertion> assertion_at(const Code& code, const Instruction& jump);

/// The SEND of the `yield from` or `await` in which this instruction suspends; its target takes the sub-iterator's
/// value. Null if the instruction suspends in neither.
const Instruction* delegation_of(const Code& code, const Instruction& suspends);

/// The kind of code that an exception handler holds.
enum class Handles : uint8_t {
  Program,   // except, finally
  With,      // calls __exit__
  ClearsUp,  // cleanup after one of those
  Internal,  // no statement: CPython's own, around generators, await and comprehensions
};
Handles what_handles(const Code& code, const Handler& handler);

/// The innermost handler of a statement around code unit `at`; null if there is none.
const Handler* statement_handler(const Code& code, int at);

/// True if an exception raised at code unit `at` certainly leaves the frame without running code of the program.
/// `lets_pass(name)` tells whether an `except` clause with this global (an index into co_names) lets it pass.
bool passes_through(const Code& code, int at, const std::function<bool(int name)>& lets_pass);

}  // namespace gramme::bytecode
