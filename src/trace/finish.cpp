#include "trace/finish.h"

#include "cpython/objects.h"
#include "trace/rebuild.h"

namespace gramme::trace {

using namespace value;
using plan::Register;

namespace {

/// Storage of a written input must not overlap other inputs unless it did at capture.
void guard_overlaps(Trace& trace) {
  if (!trace.inputs_written) return;
  const auto& inputs = trace.graph.placeholders();
  for (size_t i = 0; i < inputs.size(); ++i)
    for (size_t j = i + 1; j < inputs.size(); ++j) {
      if (!inputs[i]->record || !inputs[j]->record || aten::overlap(trace.input(inputs[i]), trace.input(inputs[j])))
        continue;
      guards::Fact fact{inputs[i]->source, guards::Kind::NoOverlap, {}};
      fact.other = inputs[j]->source;
      trace.guard(std::move(fact));
    }
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

}  // namespace

std::unique_ptr<plan::Segment> finish(Trace& trace, const End& end) {
  Rebuilder rebuild(trace);
  for (const effects::Effect& effect : trace.effects.entries()) rebuild.replay(effect);
  plan::Exit exit;
  lower_exit(rebuild, end, exit);
  trace.graph.outputs = rebuild.outputs();
  for (graph::Node* node : trace.graph.outputs) node->output = true;
  trace.graph.remove_redundant_grad_modes(trace.grad_at_start());
  trace.graph.remove_dead();
  guard_overlaps(trace);
  guard_written(trace);
  std::vector<int> inputs;
  for (graph::Node* placeholder : trace.graph.placeholders()) inputs.push_back(rebuild.read(placeholder->source));
  plan::GuardDescription guards{trace.pool, pruned(trace, rebuild.reads()), rebuild.reads(), trace.initial_state()};
  auto segment = std::make_unique<plan::Segment>(std::move(guards));
  segment->graph_inputs = std::move(inputs);
  segment->graph_outputs = static_cast<int>(trace.graph.outputs.size());
  segment->random = trace.random;
  segment->operations = static_cast<int>(trace.graph.length());
  rebuild.number_registers(exit);
  segment->replay = rebuild.take_replay();
  segment->exit = std::move(exit);
  return segment;
}

}  // namespace gramme::trace
