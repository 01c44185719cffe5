// Computes after which step each value is dead.
#include "tape/program.h"

#include <algorithm>

namespace gramme::native {

void Program::find_last_uses() {
  std::vector<bool> wanted(static_cast<size_t>(inputs) + steps.size(), false);
  each_value(output, [&](ValueId value) { wanted[static_cast<size_t>(value)] = true; });
  for (size_t i = steps.size(); i-- > 0;) {
    Step& step = steps[i];
    step.dying.clear();
    auto use = [&](ValueId value) {
      if (wanted[static_cast<size_t>(value)]) return;
      wanted[static_cast<size_t>(value)] = true;
      step.dying.push_back(value);
    };
    if (!wanted[static_cast<size_t>(result(i))]) step.dying.push_back(result(i));
    each_value(step, use);
  }
}

}  // namespace gramme::native
