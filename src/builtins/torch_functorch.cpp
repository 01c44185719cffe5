// torch.vmap: Python that is traced, over a few functions in C that stand in the graph.
//
// The levels are entered where the graph runs, and for each inference, not during the capture. A segment ends in none:
// then the call of torch.vmap is made for real.
#include "base/once.h"
#include "base/text.h"
#include "builtins/torch_support.h"

namespace gramme::builtins {

using namespace value;
using meta::Argument;

namespace {

constexpr char kModule[] = "torch._functorch.predispatch";

Argument constant_argument(PyObject* object) {
  Argument argument;
  argument.object = object;
  return argument;
}

/// Registers operators under torch.vmap, once in a process: what follows is inferred with them.
Value* lazy_load_decompositions(Trace& trace, const Args& args) {
  PyObject* const load = once([] { return real(kModule, "lazy_load_decompositions"); });
  positional<0>(args, 0);
  call_real(trace, load, {});
  trace.scope().emit_mode(load, {});
  return trace.none();
}

/// _vmap_increment_nesting(batch_size, randomness): the new level's number.
Value* enter_level(Trace& trace, const Args& args) {
  PyObject* const enter = once([] { return real(kModule, "_vmap_increment_nesting"); });
  auto [batch_size, randomness] = bind(args, 2, {"batch_size", "randomness"});
  PyObject *size = trace.constant_of(batch_size), *kind = trace.constant_of(randomness);
  if (!size || !PyLong_CheckExact(size) || !kind || !PyUnicode_CheckExact(kind))
    cannot(Reason::ArgumentKind, "the size of a torch.vmap");
  trace.scope().emit_mode(enter, {constant_argument(size), constant_argument(kind)});
  trace.scope().enter_level({PyLong_AsLongLong(size), utf8_of(kind)[0]});
  return trace.integer(static_cast<int64_t>(trace.scope().levels().size()));
}

/// _vmap_decrement_nesting(): the number of the level that was left.
Value* leave_level(Trace& trace, const Args& args) {
  PyObject* const leave = once([] { return real(kModule, "_vmap_decrement_nesting"); });
  positional<0>(args, 0);
  if (trace.scope().levels().empty()) cannot(Reason::CallUnknown, "leaving a torch.vmap that was entered before");
  auto level = static_cast<int64_t>(trace.scope().levels().size());
  trace.scope().emit_mode(leave, {});
  trace.scope().leave_level();
  return trace.integer(level);
}

/// _add_batch_dim(tensor, dim, level), _remove_batch_dim(tensor, level, size, dim): the level is the innermost one.
template <Text name, size_t level>
Value* at_level(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real(kModule, name.text); });
  bool known = args.positional > level && !args.keywords && trace.see(args[0])->kind == Kind::Tensor;
  PyObject* number = known ? trace.constant_of(args[level]) : nullptr;
  if (!number || !PyLong_CheckExact(number) || PyLong_AsSize_t(number) != trace.scope().levels().size())
    cannot(Reason::CallUnknown, "a torch.vmap around the capture");
  return trace.emit(function, args);
}

Value* is_batched(Trace& trace, const Args& args) {
  auto [object] = positional<1>(args, 1);
  auto* tensor = trace.see_as<Tensor>(object);
  if (!tensor) cannot(Reason::ArgumentKind, "is_batchedtensor of something that is no tensor");
  return trace.boolean(tensor->record->inner);
}

}  // namespace

void register_torch_functorch() {
  add_rows(kModule, {{"lazy_load_decompositions", &lazy_load_decompositions},
                     {"_vmap_increment_nesting", &enter_level},
                     {"_vmap_decrement_nesting", &leave_level},
                     {"_add_batch_dim", &at_level<"_add_batch_dim", 2>},
                     {"_remove_batch_dim", &at_level<"_remove_batch_dim", 1>}});
  add_rows("torch._C._functorch", {{"is_batchedtensor", &is_batched}});
}

}  // namespace gramme::builtins
