// The texts and hints of reasons, read from reasons.def and hints.def.
#include "base/error.h"

#include "base/stack.h"

namespace gramme {
namespace {
struct Row {
  const char *name, *text, *hint;
};
constexpr Row kRows[] = {
#define REASON(name, text, hint) {#name, text, hint},
#include "base/reasons.def"
#undef REASON
};
const Row& row(Reason reason) { return kRows[static_cast<int>(reason)]; }

struct Hint {
  Reason reason;
  const char *start, *hint;
};
constexpr Hint kHints[] = {
#define HINT(reason, start, hint) {Reason::reason, start, hint},
#include "base/hints.def"
#undef HINT
};
}  // namespace

const char* reason_name(Reason reason) { return row(reason).name; }
const char* reason_text(Reason reason) { return row(reason).text; }
const char* reason_hint(Reason reason, const std::string& detail) {
  for (const Hint& known : kHints)
    if (known.reason == reason && detail.starts_with(known.start)) return known.hint;
  return row(reason).hint;
}

void need_room() {
  if (!has_room(Room::Capture)) cannot(Reason::TooDeep);
}

void bug(const char* file, int line, const std::string& message) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) + ": " + message);
}

}  // namespace gramme
