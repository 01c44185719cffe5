// Bodies under construction: entering and leaving a graph inside the graph, and real objects for functions that an
// operator takes as arguments.
#include "hop/body.h"

#include <algorithm>

#include "base/imported.h"
#include "base/once.h"
#include "trace/bodies.h"
#include "trace/read_later.h"
#include "value/views.h"

namespace gramme::hop {

using namespace value;
using meta::Argument;

namespace {

const char* name_of_argument(Trace& trace, PyCodeObject* code, size_t i) {
  PyObject* names = trace.keep(take(PyCode_GetVarnames(code)));
  return PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i)));
}

}  // namespace

Body::Body(Trace& trace, const char* prefix, Effects effects, Floats floats)
    : trace_(trace),
      graph_(trace.scope().enter_body(prefix)),
      floatless_(floats == Floats::Never || (floats == Floats::Own && !trace.contract.as_is)) {
  trace.enter_opaque();
  trace.scope().state<trace::FloatlessBodies>().depth += floatless_;
  if (effects == Effects::Forbidden) confined_.emplace(trace.confinement, trace.inliner);
}

Body::~Body() {
  if (!open_) return;
  trace_.scope().state<trace::FloatlessBodies>().depth -= floatless_;
  trace_.scope().abandon_body();
}

Tensor* Body::input(const meta::Record* record, const char* label) {
  auto* tensor = trace_.make<Tensor>();
  tensor->node = graph_->input(record, label, trace_.position());
  tensor->record = record;
  tensor->made_at = trace_.steps();
  if (confined_) confined_->disown(tensor);
  return tensor;
}

void Body::operands(Value* function, const Args& args) {
  auto* method = as<Method>(trace_.see(function));
  auto* called = trace_.see_as<Function>(method ? method->function : function);
  if (called) trace_.describe(called);
  const size_t bound = method ? 1 : 0;
  for (size_t i = 0; i < args.positional; ++i) {
    auto* tensor = trace_.see_as<Tensor>(args[i]);
    if (!tensor) continue;
    graph::Node* node = trace_.scope().node(tensor);
    node->effect = true;
    if (called && i + bound < static_cast<size_t>(called->code->co_argcount))
      node->label = name_of_argument(trace_, called->code, i + bound);
  }
}

Value* Body::call(Value* function, const Args& args) {
  for (size_t i = 0; i < args.positional + args.keywords; ++i) trace_.see(args.values[i]);
  try {
    return protocol::call(trace_, function, args);
  } catch (const UserError& error) {
    Value* raised = trace_.see(error.exception);
    auto* exception = as<Object>(raised);
    const std::string line =
        exception && !exception->passed.empty() ? " in line " + std::to_string(exception->passed[0].line) : "";
    cannot(Reason::BodyRaised, protocol::type_of(raised)->tp_name + line);
  }
}

std::vector<Tensor*> Body::tensors(Value* result) const {
  std::vector<Tensor*> found;
  auto visit = [&](auto&& self, Value* value) -> void {
    value = trace_.see(value);
    if (auto* tuple = as<Tuple>(value))
      for (Value* item : tuple->items) self(self, item);
    if (auto* list = as<List>(value))
      for (Value* item : list->items()) self(self, item);
    if (auto* dict = as<Dict>(value); dict && !dict->existing())
      dict->entries.each([&](Table::Entry& entry) { self(self, entry.value); });
    auto* tensor = as<Tensor>(value);
    if (tensor && made(tensor) && std::find(found.begin(), found.end(), tensor) == found.end()) found.push_back(tensor);
  };
  visit(visit, result);
  return found;
}

void Body::runs_later() {
  auto& later = trace_.scope().state<trace::ReadLater>();
  confined_->runs_later(later.known(), [this, &later](Value* holder, PyObject* name, Value* found) {
    later.note(trace_, holder, name, found);
  });
}

bool Body::made(const Tensor* tensor) const {
  return tensor->node && tensor->node->graph == graph_ && !tensor->node->outer;
}

void Body::name(const std::vector<Tensor*>& tensors, const char* name) {
  PyObject* const text = trace_.keep(take(PyUnicode_InternFromString(name)));
  for (const Tensor* tensor : tensors) graph_->hint(tensor->node, text);
}

void Body::refuse_aliases(const std::vector<Tensor*>& tensors) const {
  std::vector<const Tensor*> roots;
  for (const Tensor* tensor : tensors) {
    const Tensor* root = storage_root(tensor);
    if (!made(root) || std::find(roots.begin(), roots.end(), root) != roots.end())
      cannot(Reason::BodyUnsupported, "a result that shares memory with another one, or with an input");
    roots.push_back(root);
  }
}

graph::Graph* Body::returns(const std::vector<Tensor*>& tensors) {
  std::vector<Argument> items;
  for (Tensor* tensor : tensors) items.push_back(trace_.scope().argument(tensor));
  return returns(trace_.scope().sequence_of(Argument::Tuple, items));
}

graph::Graph* Body::returns(const Argument& result) {
  graph_->returns(result);
  leave();
  return graph_;
}

void Body::leave() {
  if (confined_) confined_->check();
  open_ = false;
  trace_.scope().state<trace::FloatlessBodies>().depth -= floatless_;
  trace_.scope().leave_body();
  confined_.reset();
}

bool Body::is_own(const Tensor* tensor) const {
  for (; tensor; tensor = tensor->base) {
    const graph::Node* node = tensor->node;
    if (!node || node->outer || node->label || !node->graph->is_in(graph_)) return false;
  }
  return true;
}

std::vector<Argument> lifted(const graph::Graph& body) {
  std::vector<Argument> arguments;
  for (const graph::Node* input : body.placeholders()) {
    if (!input->outer) continue;
    Argument& argument = arguments.emplace_back();
    argument.kind = input->record ? Argument::Tensor : Argument::Number;
    argument.node = input->outer;
    argument.record = input->record;
  }
  return arguments;
}

void take_results(Trace& trace, graph::Node* call, const std::vector<Tensor*>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i]->node = trace.scope().item(call, i, tensors[i]->record);
}

PyObject* constant_of(Trace& trace, Value* value, const char* what) {
  if (!value) return nullptr;
  PyObject* constant = trace.constant_of(value);
  if (!constant) cannot(Reason::ArgumentKind, what);
  return constant;
}

namespace {

/// A real object for an argument of a partial.
Owned<> real_part(Trace& trace, Value* value, const char* what) {
  value = trace.see(value);
  if (Owned<> constant = trace.concrete(value)) return constant;
  if (auto* list = as<List>(value)) {
    Owned<> result = take(PyList_New(0));
    for (Value* item : list->items()) check(PyList_Append(result.get(), real_part(trace, item, what).get()));
    return result;
  }
  if (!value->object) return share(real_function(trace, value, what));
  if (value->source) trace.facts.add({value->source, guards::Kind::Identity, share(value->object)});
  return share(value->object);
}

}  // namespace

PyObject* real_function(Trace& trace, Value* value, const char* what) {
  value = trace.see(value);
  auto* partial = as<Partial>(value);
  if (!partial || partial->object) {
    if (!value->object || !PyCallable_Check(value->object)) cannot(Reason::ArgumentKind, what);
    if (value->source) trace.facts.add({value->source, guards::Kind::Identity, share(value->object)});
    return value->object;
  }
  PyObject* const make = once([] { return imported("functools", "partial").release(); });
  Owned<> args = take(PyList_New(0)), keywords = take(PyDict_New());
  check(PyList_Append(args.get(), real_function(trace, partial->function, what)));
  for (Value* arg : partial->args) check(PyList_Append(args.get(), real_part(trace, arg, what).get()));
  for (const Attribute& keyword : partial->keywords)
    check(PyDict_SetItem(keywords.get(), keyword.name, real_part(trace, keyword.value, what).get()));
  return trace.keep(take(PyObject_Call(make, take(PyList_AsTuple(args.get())).get(), keywords.get())));
}

Args rest(const Args& args, size_t from) {
  return {args.values + from, args.positional - from, args.names, args.keywords};
}

}  // namespace gramme::hop
