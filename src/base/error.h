// The three exits of capture, never mixed: the program's own exception (value/user_error.h), "cannot capture this"
// (a row of reasons.def) and our own bug.
#pragma once
#include <stdexcept>
#include <string>

namespace gramme {

enum class Reason {
#define REASON(name, text, hint) name,
#include "base/reasons.def"
#undef REASON
};

const char* reason_name(Reason reason);
const char* reason_text(Reason reason);
/// What the user can do about it. A row of hints.def whose start matches the detail comes before the reason's own hint.
const char* reason_hint(Reason reason, const std::string& detail = {});

/// This instruction cannot be captured. Ends the segment before the instruction of the root frame; an error under
/// fullgraph.
struct CannotCapture : std::exception {
  CannotCapture(Reason reason, std::string detail) : reason(reason), detail(std::move(detail)) {}
  const char* what() const noexcept override { return reason_text(reason); }
  Reason reason;
  std::string detail;  // what exactly, e.g. the name of the function
};

[[noreturn]] inline void cannot(Reason reason, std::string detail = {}) {
  throw CannotCapture(reason, std::move(detail));
}

/// Called before a step deeper into the program's calls or data. Ends the segment (TooDeep) while there is stack left
/// to do so.
void need_room();

/// A defect of gramme: the captured frame is abandoned and runs eagerly; the message names the place.
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

[[noreturn]] void bug(const char* file, int line, const std::string& message);
#define GRAMME_BUG(message) ::gramme::bug(__FILE__, __LINE__, (message))
#define GRAMME_ASSERT(condition)                           \
  do {                                                     \
    if (!(condition)) GRAMME_BUG("violated: " #condition); \
  } while (0)

}  // namespace gramme
