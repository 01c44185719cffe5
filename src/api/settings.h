// Settings of torch._dynamo.config about captures, except those about varying sizes (capturer.cpp). docs/surface.md
// lists all names.
#pragma once
#include <optional>
#include <string>

#include "base/ref.h"
#include "runtime/capturer.h"

namespace gramme::api {

/// True if captures are switched off.
bool captures_are_disabled();
/// The limit of captures for one resume point; `asked` is the option of gramme.compile.
int recompile_limit(std::optional<int> asked);
bool is_recompile_error();
bool is_recompile_limit_error();
/// True inside torch._dynamo.error_on_graph_break(True).
bool is_break_error();
void leave_break_error();

/// Warns of each setting that gramme does not follow, once.
void warn_of_settings();

/// Runs the callbacks of torch._dynamo.callback around a capture and its compilation.
class Compilation {
 public:
  explicit Compilation(const runtime::FrameView& frame);
  Compilation(const Compilation&) = delete;
  /// After a capture that raised, keeps the exception.
  ~Compilation();
  void finish();

 private:
  Owned<> running_;
};

}  // namespace gramme::api
