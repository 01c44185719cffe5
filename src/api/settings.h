// What torch._dynamo.config and torch.compiler.config say of captures besides what varies. docs/surface.md has all
// names.
#pragma once
#include <optional>
#include <string>

#include "base/ref.h"
#include "runtime/capturer.h"

namespace gramme::api {

/// True once nothing is captured any more.
bool captures_are_disabled();
/// Captures for one place; `asked`: what compile was told.
int recompile_limit(std::optional<int> asked);
bool is_recompile_error();
bool is_recompile_limit_error();
/// True if a break is an error that starts here (torch._dynamo.error_on_graph_break).
bool is_break_error();
void leave_break_error();

/// Settings that gramme does not follow are warned of, each once.
void warn_of_settings();

/// Callbacks of torch._dynamo.callback, around what is captured and compiled.
class Compilation {
 public:
  explicit Compilation(const runtime::FrameView& frame);
  Compilation(const Compilation&) = delete;
  /// After a capture that raised, the exception stays what it is.
  ~Compilation();
  void finish();

 private:
  Owned<> running_;
};

}  // namespace gramme::api
