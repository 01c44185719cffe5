// Call rules: preparations before a Python function of a library is traced. The function is still traced, and segments
// may end in it.
#pragma once
#include <vector>

#include "protocol/protocol.h"

namespace gramme::protocol {

/// A rule may replace argument values, which are in call order, or start the capture again.
using CallRule = void (*)(Trace& trace, value::Function* function, const Args& args, std::vector<Value*>& values);
/// Adds a rule for the function with this file suffix and qualified name.
void add_call_rule(const char* file_suffix, const char* qualified_name, CallRule rule);
CallRule find_call_rule(PyCodeObject* code);

}  // namespace gramme::protocol
