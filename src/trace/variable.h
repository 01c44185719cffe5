// What the program calls a value and where it stands, for refusals: "`log` in train.py:12".
#pragma once
#include <string>

#include "value/value.h"

namespace gramme::trace {

class Capture;

/// The variable of a function under way that holds the value, or the way to it: "`log`", "`self.seen['a']`"; what it is
/// if it has no name: "a List". With an attribute, that of it. Then the file and line of the current instruction.
std::string named(Capture& capture, const value::Value* value, PyObject* attribute = nullptr);

}  // namespace gramme::trace
