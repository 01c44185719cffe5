// What importing PyTorch's own front end changes in torch.nn.
#include "builtins/torch_support.h"

namespace gramme::builtins {

namespace {

/// Module.__init__ once torch._dynamo is imported: the original in the closure, then a note of the module's generation
/// that only torch._dynamo reads, for modules it has to guard.
Value* tagged_init(Trace& trace, value::Function* function, const Args& args) {
  trace.describe(function);
  auto* cell = function->closure.empty() ? nullptr : value::as<value::Cell>(function->closure[0]);
  Value* original = cell ? trace.cell_content(cell) : nullptr;
  if (!original) cannot(Reason::CallUnknown, "torch.nn.Module.__init__ as patched by torch._dynamo");
  return protocol::call(trace, original, args);
}

}  // namespace

void register_torch_dynamo() {
  protocol::add_function_model("torch/_dynamo/mutation_guard.py",
                               "install_generation_tagging_init.<locals>.patched_init", &tagged_init);
}

}  // namespace gramme::builtins
