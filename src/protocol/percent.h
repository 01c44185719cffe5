// `text % arguments`.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// `format` is a str or bytes constant; both operands must be seen.
Value* percent(Trace& trace, Value* format, Value* arguments);

}  // namespace gramme::protocol
