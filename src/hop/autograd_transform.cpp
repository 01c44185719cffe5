// torch.autograd.Function.apply inside transforms of torch.func: a node calls the class itself, so that PyTorch applies
// its rules. Inferring metadata runs the rules on fakes too, so they are traced first, to be sure that they have no
// effects. Only where one graph is required (fullgraph=True, gramme.export); otherwise the call of the transform runs
// uncaptured.
#include "base/imported.h"
#include "base/once.h"
#include "cpython/objects.h"
#include "hop/autograd_function.h"
#include "hop/body.h"

namespace gramme::hop {

using namespace value;

namespace {

/// Refuses rules besides backward: they are not traced.
void refuse_rules(Trace& trace, PyTypeObject* function) {
  static PyObject* const k_generate = intern("generate_vmap_rule");
  for (const meta::Level& level : trace.scope().modes().levels()) {
    if (level.kind == meta::Level::Jvp) cannot(Reason::BodyUnsupported, "jvp() of an autograd.Function");
    if (level.kind == meta::Level::Vmap && trace.type_lookup(function, k_generate) != Py_True)
      cannot(Reason::BodyUnsupported, "vmap() of an autograd.Function");
  }
}

}  // namespace

Value* apply_in_transforms(Trace& trace, Applied& applied) {
  PyObject* const make = once([] { return imported("gramme._autograd_function", "make_apply").release(); });
  if (trace.contract.breaks) cannot(Reason::BodyUnsupported, "autograd.Function.apply under a transform");
  if (!applied.has_setup) cannot(Reason::BodyUnsupported, "a transform of an autograd.Function without setup_context");
  refuse_rules(trace, applied.function->type());
  if (!trace.effects().empty()) cannot(Reason::LateEffect, "autograd.Function.apply under a transform");
  const std::vector<Value*> given = applied.args;
  for (Value* arg : given)
    if (arg->kind != Kind::Tensor && arg->kind != Kind::Constant)
      cannot(Reason::ArgumentKind, "an argument of autograd.Function.apply under a transform");
  try_bodies(trace, applied);
  PyObject* apply = trace.keep(take(PyObject_CallOneArg(make, applied.function->object)));
  return trace.emit(apply, {given.data(), given.size(), nullptr, 0});
}

}  // namespace gramme::hop
