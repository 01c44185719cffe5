// Compares layouts of objects in the running process with those that this build was compiled for.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace gramme {

/// A size, an offset or a field's value, by this build's headers and as the process has it.
struct Layout {
  std::string of;
  int64_t built, found;
};

/// One sentence about the first layout that differs; empty if none does. `who` names what was built otherwise: "CPython
/// 3.11.7".
inline std::string mismatch(const std::vector<Layout>& layouts, const std::string& who) {
  for (const Layout& layout : layouts)
    if (layout.built != layout.found)
      return "gramme was built for another build of " + who + ": " + layout.of + " is " + std::to_string(layout.found) +
             " here and " + std::to_string(layout.built) + " there; build gramme anew with this one";
  return "";
}

}  // namespace gramme
