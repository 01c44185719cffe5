// Operators that run one function once, where the program calls them.
#include "hop/body.h"

namespace gramme::hop {

using namespace value;
using meta::Argument;

Value* wrap(Trace& trace, const Row& row, PyObject* op, const Args& args) {
  if (!args.positional) cannot(Reason::ArgumentKind, row.name);
  Body body(trace, row);
  Value* result = body.call(args[0], {args.values + 1, args.positional - 1, args.names, args.keywords});
  const std::vector<Tensor*> made = body.tensors(result);
  graph::Graph* graph = body.returns(made);
  graph->in_place = true;
  std::vector<Argument> arguments = {trace.scope().body(graph)};
  for (const Argument& argument : lifted(*graph)) arguments.push_back(argument);
  take_results(trace, trace.scope().emit_operator(op, arguments), made);
  return result;
}

}  // namespace gramme::hop
