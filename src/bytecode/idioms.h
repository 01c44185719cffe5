// What several instructions together are: the forms that CPython's compiler gives statements. Nothing else of gramme
// looks at an instruction's neighbours.
#pragma once
#include <functional>
#include <optional>

#include "bytecode/code.h"

namespace gramme::bytecode {

/// A conditional jump of which one side, and only that, does nothing but raise.
struct Assertion {
  bool holds;     // the truth that leads to the other side
  int text = -1;  // of `assert condition, "text"`: index into co_consts
};
/// None where it is no such jump, or one that leads back: a loop would not end.
std::optional<Assertion> assertion_at(const Code& code, const Instruction& jump);

/// What the instruction does with the iterator that the generator delegates to, if it suspends in `yield from` or
/// `await`: its SEND, whose target is where that one's value goes. Null if it does not.
const Instruction* delegation_of(const Code& code, const Instruction& suspends);

/// What a handler is there for.
enum class Handles : uint8_t {
  Program,   // except, finally
  With,      // calls __exit__
  ClearsUp,  // after one of those
  Internal,  // no statement: CPython's own around generators, await and comprehensions
};
Handles what_handles(const Code& code, const Handler& handler);

/// The innermost handler around code unit `at` that is there for a statement; null if there is none.
const Handler* statement_handler(const Code& code, int at);

/// True if an exception raised at code unit `at` leaves the frame without running any code of the program. `lets_pass`
/// says it of `except` with the global of this index into co_names. False where that is not certain.
bool passes_through(const Code& code, int at, const std::function<bool(int name)>& lets_pass);

}  // namespace gramme::bytecode
