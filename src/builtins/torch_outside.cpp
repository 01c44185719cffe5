// Functions of torch that compute with numbers of tensors, or communicate: their calls end the segment, and run in one
// piece.
#include "base/imported.h"
#include "base/once.h"
#include "base/text.h"
#include "builtins/torch_rules.h"
#include "builtins/torch_support.h"
#include "cpython/objects.h"
#include "protocol/call_rules.h"

namespace gramme::builtins {

using namespace value;

namespace {

void refuse_packed(Trace& trace, Function*, const Args& args, std::vector<Value*>&) {
  PyTypeObject* const packed = once([] { return imported_type("torch.nn.utils.rnn", "PackedSequence"); });
  if (args.positional < 2 || protocol::type_of(trace.see(args[1])) != packed) return;
  cannot(Reason::DataDependentValue, "a recurrent layer over a PackedSequence");
}

void refuse_numbers(Trace& trace, Function*, const Args&, std::vector<Value*>&) {
  if (!trace.contract.as_is && !trace.data.scalars)
    cannot(Reason::DataDependentValue, "a step of an optimizer that reads numbers of tensors");
}

void refuse_collective(Trace&, Function* function, const Args&, std::vector<Value*>&) {
  cannot(Reason::CallSkipped, "torch.distributed." + utf8_of(cpython::as_function(function->object)->func_name));
}

constexpr protocol::CallRule Packed = &refuse_packed, Numbers = &refuse_numbers, Collective = &refuse_collective;

}  // namespace

bool runs_whole(PyCodeObject* code) {
  const protocol::CallRule rule = protocol::find_call_rule(code);
  return rule == Packed || rule == Collective;
}

void register_torch_outside() {
#define OUTSIDE(file, function, when) protocol::add_call_rule("torch/" file, function, when);
#include "torch_outside.def"
#undef OUTSIDE
}

}  // namespace gramme::builtins
