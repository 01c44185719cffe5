// `text % arguments`.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// `format` is a str or bytes constant. Both must be seen.
Value* percent(Trace& trace, Value* format, Value* arguments);

}  // namespace gramme::protocol
