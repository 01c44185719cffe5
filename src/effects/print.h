// The effects log as text, one line per entry, in the order of replay. Tests compare logs by their lines.
#pragma once
#include <string>
#include <vector>

#include "effects/log.h"

namespace gramme::effects {

/// "StoreAttr L['box'].x = a new List", "Content L['rows'] = 3 items", "Call set_grad_enabled(False)".
std::string print(const Effect& effect);
std::vector<std::string> print(const Log& log);

}  // namespace gramme::effects
