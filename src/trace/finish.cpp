#include "trace/finish.h"

#include <algorithm>

#include "cpython/objects.h"
#include "effects/print.h"
#include "trace/rebuild.h"

namespace gramme::trace {

using namespace value;
using plan::Register;

namespace {

/// The inputs that share memory with no other input; `aliased` gets the rest.
std::vector<graph::Node*> apart(const Trace& trace, std::vector<graph::Node*>& aliased) {
  std::vector<graph::Node*> tensors, result;
  std::vector<PyObject*> objects;
  std::vector<uint32_t> all;
  for (graph::Node* input : trace.graph.placeholders()) {
    if (!input->record) continue;
    all.push_back(static_cast<uint32_t>(tensors.size()));
    tensors.push_back(input);
    objects.push_back(trace.input(input));
  }
  std::vector<uintptr_t> addresses;
  if (aten::all_apart(objects.data(), all, addresses)) return tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    bool shares = false;
    for (size_t j = 0; j < tensors.size() && !shares; ++j) shares = i != j && aten::overlap(objects[i], objects[j]);
    (shares ? aliased : result).push_back(tensors[i]);
  }
  return result;
}

void guard_pair(Trace& trace, guards::Kind kind, const Source* source, const Source* other) {
  guards::Fact fact{source, kind, {}};
  fact.other = other;
  trace.guard(std::move(fact));
}

/// Where some input is written, none may share memory with another unless it did at capture.
void guard_overlaps(Trace& trace) {
  if (!trace.inputs_written) return;
  std::vector<graph::Node*> aliased, group = apart(trace, aliased);
  for (size_t i = 1; i < group.size(); ++i)
    guard_pair(trace, guards::Kind::Apart, group[i - 1]->source, group[i]->source);
  for (graph::Node* node : aliased) {
    for (graph::Node* other : group) guard_pair(trace, guards::Kind::NoOverlap, node->source, other->source);
    for (graph::Node* other : aliased)
      if (node->id < other->id && !aten::overlap(trace.input(node), trace.input(other)))
        guard_pair(trace, guards::Kind::NoOverlap, node->source, other->source);
  }
}

/// What a tensor that gained a gradient by a write does not share memory with must stay apart from it.
void guard_gained(Trace& trace) {
  trace.each_known([&](Value* value) {
    if (value->kind != Kind::Tensor || !value->existing()) return;
    for (Tensor* gained : trace.gained()) {
      if (value == gained) continue;
      guards::Fact fact{gained->source, guards::Kind::NoOverlap, {}};
      fact.other = value->source;
      trace.guard(std::move(fact));
    }
  });
}

/// A written object must stay another one than every object of its kind that was read.
void guard_written(Trace& trace) {
  std::vector<Value*> written, all;
  trace.each_known([&](Value* value) {
    bool mutable_kind = value->kind == Kind::List || value->kind == Kind::Dict || value->kind == Kind::Set ||
                        value->kind == Kind::Deque || value->kind == Kind::Object || value->kind == Kind::Cell;
    if (!mutable_kind || !value->source || value->source->kind == source::Kind::Pinned) return;
    all.push_back(value);
    if (value->written) written.push_back(value);
  });
  for (Value* w : written)
    for (Value* other : all)
      if (other != w && Py_TYPE(other->object) == Py_TYPE(w->object)) {
        guards::Fact fact{w->source, guards::Kind::NotSameAs, {}};
        fact.other = other->source;
        trace.guard(std::move(fact));
      }
}

/// Without the facts that others imply: what is read or looked into, or has something below it, is present.
std::vector<guards::Fact> pruned(const Trace& trace, const std::vector<const Source*>& reads) {
  std::vector<bool> implied(trace.pool->size());
  auto mark = [&](const Source* source) {
    for (; source && !implied[source->id]; source = source->base) implied[source->id] = true;
  };
  for (const Source* source : reads) mark(source);
  for (const guards::Fact& fact : trace.facts()) {
    if (fact.kind == guards::Kind::Present) continue;
    mark(fact.kind == guards::Kind::Absent ? fact.source->base : fact.source);
    if (fact.other) mark(fact.other);
  }
  std::vector<guards::Fact> kept;
  for (const guards::Fact& fact : trace.facts()) {
    mark(fact.source->base);
    if (fact.kind != guards::Kind::Present || !implied[fact.source->id]) kept.push_back(fact);
  }
  return kept;
}

/// Without gradients nothing depends on requires_grad. What is changed keeps it: backends write by the kind of tensor.
void forget_autograd(const Trace& trace, std::vector<guards::Fact>& facts) {
  const auto& effects = trace.effects.entries();
  bool calls = std::any_of(effects.begin(), effects.end(),
                           [](const effects::Effect& effect) { return effect.kind == effects::Kind::Call; });
  if (trace.autograd_seen || trace.inputs_written || calls) return;
  for (guards::Fact& fact : facts)
    if (fact.spec) fact.spec = aten::without_autograd(*fact.spec);
}

void lower_exit(Rebuilder& rebuild, const End& end, plan::Exit& exit) {
  exit.kind = end.kind;
  exit.offset = end.offset;
  exit.capture_callee = end.capture_callee;
  exit.exception = plan::kKeep;
  if (end.exception_changed) exit.exception = end.exception ? rebuild(end.exception) : plan::kNull;
  for (auto [slot, value] : end.locals) exit.locals.push_back({slot, value ? rebuild(value) : plan::kNull});
  if (end.kind == plan::ExitKind::Return) {
    exit.result = rebuild(end.result);
    return;
  }
  for (Value* value : end.stack) exit.stack.push_back(rebuild(value));
}

/// Backends keep the modes of their parts to themselves: a mode entered here could not be left by a later segment.
void check_modes_left(Trace& trace) {
  if (trace.entered_modes.empty()) return;
  trace.stop_at = *trace.entered_modes.begin();
  cannot(Reason::ReplayUnsupported, "a mode that the segment enters and does not leave");
}

}  // namespace

std::unique_ptr<plan::Segment> finish(Trace& trace, const End& end) {
  check_modes_left(trace);
  Rebuilder rebuild(trace);
  for (const effects::Effect& effect : trace.effects.entries()) rebuild.replay(effect);
  if (aten::grad_enabled() != trace.grad_at_start()) rebuild.set_grad_mode(aten::grad_enabled());
  plan::Exit exit;
  lower_exit(rebuild, end, exit);
  trace.graph.outputs = rebuild.outputs();
  for (graph::Node* node : trace.graph.outputs) node->output = true;
  trace.graph.remove_redundant_grad_modes(trace.grad_at_start());
  trace.graph.remove_dead();
  guard_overlaps(trace);
  guard_gained(trace);
  guard_written(trace);
  std::vector<int> inputs;
  for (graph::Node* placeholder : trace.graph.placeholders()) inputs.push_back(rebuild.read(placeholder->source));
  std::vector<int> restored;
  for (Tensor* tensor : trace.restored()) restored.push_back(rebuild.read(tensor->source));
  std::vector<guards::Fact> facts = pruned(trace, rebuild.reads());
  forget_autograd(trace, facts);
  plan::GuardDescription guards{trace.pool, std::move(facts), rebuild.reads(), trace.initial_state()};
  auto segment = std::make_unique<plan::Segment>(std::move(guards));
  segment->graph_inputs = std::move(inputs);
  segment->graph_outputs = static_cast<int>(trace.graph.outputs.size());
  segment->random = trace.random;
  segment->effects = effects::print(trace.effects);
  segment->restored = std::move(restored);
  segment->sets_modes = trace.sets_modes;
  segment->operations = static_cast<int>(trace.graph.length());
  rebuild.number_registers(exit);
  segment->replay = rebuild.take_replay();
  segment->exit = std::move(exit);
  return segment;
}

}  // namespace gramme::trace
