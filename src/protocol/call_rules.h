// What is done before a Python function of a library is traced: in its place nothing runs, and segments end in it as in
// any other.
#pragma once
#include <vector>

#include "protocol/protocol.h"

namespace gramme::protocol {

/// May change the values of the arguments, which are in the order of the call, or have the capture start again.
using CallRule = void (*)(Trace& trace, value::Function* function, const Args& args, std::vector<Value*>& values);
/// By where the function's code is from.
void add_call_rule(const char* file_suffix, const char* qualified_name, CallRule rule);
CallRule find_call_rule(PyCodeObject* code);

}  // namespace gramme::protocol
