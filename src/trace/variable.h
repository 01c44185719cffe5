// The program's name for a value and the current line, for messages: "`log` in train.py:12".
#pragma once
#include <string>

#include "value/value.h"

namespace gramme::trace {

class Inliner;

/// The running function's variable that holds the value, or the path to it: "`log`", "`self.seen['a']`". Without a
/// name, the kind: "a List". `attribute` appends an attribute. File and line of the current instruction follow.
/// `inliner` may be null.
std::string named(Inliner* inliner, const value::Value* value, PyObject* attribute = nullptr);

}  // namespace gramme::trace
