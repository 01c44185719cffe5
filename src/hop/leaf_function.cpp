// Functions that the program wants called uncaptured when the graph runs (torch._dynamo.decorators.leaf_function). They
// become the operator invoke_leaf_function, as in PyTorch. The program's own function for fakes gives their results'
// metadata.
//
// Only where one graph is required (fullgraph=True, gramme.export); otherwise the call runs uncaptured, and its effects
// on objects are seen afterwards.
#include "base/imported.h"
#include "base/once.h"
#include "hop/body.h"
#include "hop/operators.h"
#include "hop/outputs.h"
#include "meta/asked.h"
#include "meta/infer.h"
#include "torch/names.h"

namespace gramme::hop {

using namespace value;
using meta::Argument;
using meta::Result;

namespace {

/// The arguments, flattened as torch.utils._pytree does with (args, keywords).
struct Flat {
  Flat(Trace& trace, const Args& args) : tree(trace, both(trace, args)) {
    for (Value* leaf : tree.leaves) {
      auto* tensor = as<Tensor>(leaf);
      if (!tensor && !trace.constant_of(leaf))
        cannot(Reason::ArgumentKind, "an argument of a leaf function that is neither a tensor nor a constant");
      if (tensor) trace.scope().requires_grad(tensor);
      arguments.push_back(tensor ? operand(trace, tensor) : trace.scope().argument(leaf));
    }
  }
  /// A real object of this tree with zeros as leaves.
  Owned<> example(Trace& trace) const {
    return trace.concrete(tree.around(trace, std::vector<Value*>(tree.leaves.size(), trace.integer(int64_t{0}))));
  }

  Tree tree;
  std::vector<Argument> arguments;

 private:
  static Value* both(Trace& trace, const Args& args) {
    Dict* keywords = trace.dict();
    for (size_t i = 0; i < args.keywords; ++i)
      trace.dict_set(keywords, trace.constant(args.names[i]), args.values[args.positional + i]);
    return trace.tuple({trace.tuple({args.values, args.values + args.positional}), keywords});
  }
};

/// The metadata of the function's results, from a call on fakes.
const meta::Outcome& inferred(Trace& trace, PyObject* function, const Args& args) {
  std::vector<Argument> values;
  for (size_t i = 0; i < args.positional + args.keywords; ++i) values.push_back(trace.scope().argument(args.values[i]));
  meta::Call call;
  call.target = function;
  call.args = values.data();
  call.arg_count = static_cast<uint32_t>(args.positional);
  call.keyword_names = args.names;
  call.keyword_args = values.data() + args.positional;
  call.keyword_count = static_cast<uint32_t>(args.keywords);
  const meta::Outcome& outcome = meta::infer(call, {}, &trace.shapes.assumptions);
  if (outcome.error) cannot(Reason::OperatorFailed, outcome.message);
  if (!outcome.mutations.empty()) cannot(Reason::BodyUnsupported, "a leaf function that writes");
  for (const shape::Expr guard : outcome.guards) trace.shapes.learn(guard, trace.position());
  return outcome;
}

/// Builds the result, whose leaves are items of the operator's result.
class Results {
 public:
  Results(Trace& trace, graph::Node* call) : trace_(trace), call_(call) {}

  Value* of(const Result& result) {
    switch (result.kind) {
      case Result::Tensor: {
        if (result.same_as >= 0 || result.view_of >= 0 || result.twin >= 0 || result.shared)
          cannot(Reason::BodyUnsupported, "a leaf function that returns tensors of one memory");
        Tensor* tensor = new_result(trace_, result.record);
        tensor->node = trace_.scope().item(call_, place_++, result.record);
        return tensor;
      }
      case Result::Sequence: {
        std::vector<Value*> items;
        for (const Result& item : result.items) items.push_back(of(item));
        if (result.object.get() == reinterpret_cast<PyObject*>(&PyList_Type)) return trace_.list(std::move(items));
        Tuple* tuple = trace_.tuple(std::move(items));
        if (result.object) tuple->type = reinterpret_cast<PyTypeObject*>(result.object.get());
        return tuple;
      }
      case Result::Constant:
        if (result.object && result.object.get() != Py_None) break;
        ++place_;
        return trace_.none();
      case Result::Number:
        break;
    }
    cannot(Reason::BodyUnsupported, "a leaf function that returns anything but tensors");
  }

 private:
  Trace& trace_;
  graph::Node* call_;
  size_t place_ = 0;
};

Value* leaf_function(Trace& trace, Function* function, const Args& args) {
  PyObject* const make = once([] { return imported("gramme._higher_order", "leaf_parts").release(); });
  PyObject* const op = of_torch::object(of_torch::InvokeLeafFunction);
  if (trace.contract.breaks || trace.scope().modes().in_level()) cannot(Reason::CallSkipped, "a leaf function");
  ++meta::asked->program;
  PyObject* real = real_function(trace, function, "a leaf function that the program makes");
  const Flat flat(trace, args);
  Owned<> example = flat.example(trace);
  if (!example) cannot(Reason::ArgumentKind, "arguments of a leaf function");
  PyObject* parts = trace.keep(take(PyObject_CallFunctionObjArgs(make, real, example.get(), nullptr)));
  if (parts == Py_None) cannot(Reason::BodyUnsupported, "a leaf function that writes, or that has none for fakes");
  const meta::Outcome& outcome = inferred(trace, real, args);
  trace.scope().expect_program();
  std::vector<Argument> arguments;
  for (const char* name : {"real_fn", "fake_fn", "input_spec"})
    arguments.push_back(
        trace.scope().attribute(name, PyTuple_GET_ITEM(parts, static_cast<Py_ssize_t>(arguments.size()))));
  arguments.push_back(constant(trace.keep(take(PyUnicode_FromString("")))));
  arguments.insert(arguments.end(), flat.arguments.begin(), flat.arguments.end());
  return Results(trace, trace.scope().emit_operator(op, arguments)).of(outcome.result);
}

}  // namespace

void register_leaf_functions() { protocol::add_function_model(of_torch::LeafFunction, &leaf_function); }

}  // namespace gramme::hop
