// The list of all structs that outlive a call.
#include "base/process.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace gramme {

void ProcessState::drop_all() {
  for (ProcessState* each = newest; each; each = each->older_) each->renew();
}

std::vector<std::pair<std::string, size_t>> ProcessState::sizes() {
  std::vector<std::pair<std::string, size_t>> all;
  for (const ProcessState* each = newest; each; each = each->older_) {
    constexpr std::string_view kRoot = "/src/";
    const std::string_view file = each->file_;
    const size_t root = file.rfind(kRoot);
    all.emplace_back(file.substr(root == file.npos ? 0 : root + kRoot.size()), each->size());
  }
  std::ranges::sort(all);
  return all;
}

void ProcessState::end_load() { loading = false; }

void ProcessState::refuse_late(const char* file) { bug(file, 0, "a table of the load is filled later"); }

}  // namespace gramme
