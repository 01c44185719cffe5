// Finishing a capture: effects become the replay, the final state becomes the exit, the graph is cleaned and gets its
// outputs, and the facts still needed become guards.
#include "trace/finish.h"

#include <algorithm>

#include "aten/classes.h"
#include "base/imported.h"
#include "base/once.h"
#include "cpython/lending.h"
#include "cpython/objects.h"
#include "effects/print.h"
#include "guards/dropped.h"
#include "torch/names.h"
#include "trace/bodies.h"
#include "trace/closing_guards.h"
#include "trace/custom_views.h"
#include "trace/read_later.h"
#include "trace/rebuild.h"
#include "value/views.h"

namespace gramme::trace {

using namespace value;
using plan::Register;

namespace {

// Recursion levels that a segment requires: for each inlined call, and for C functions and the backend's Python on top.
constexpr int kLevelsOfCall = 3, kLevelsOfGraph = 64;

void lower_exit(Rebuilder& rebuild, const End& end, plan::Exit& exit) {
  exit.kind = end.kind;
  exit.offset = end.offset;
  exit.callers = end.callers;
  exit.lets_go = end.lets_go;
  exit.capture_callee = end.capture_callee;
  exit.exception = plan::kKeep;
  if (end.exception_changed) exit.exception = end.exception ? rebuild(end.exception) : plan::kNull;
  for (auto [slot, value] : end.locals) exit.locals.push_back({slot, value ? rebuild(value) : plan::kNull});
  if (end.result) exit.result = rebuild(end.result);
  if (end.kind == plan::ExitKind::Return) {
    exit.makes_generator = end.result->kind == Kind::Generator;
    return;
  }
  for (Value* value : end.stack) exit.stack.push_back(rebuild(value));
  exit.borrowed = end.borrowed;
  for (const FrameEnd& frame : end.pushed) {
    plan::PushedFrame& pushed = exit.pushed.emplace_back();
    pushed.function = rebuild(frame.function);
    pushed.code = Owned<PyCodeObject>::share(frame.function->code);
    pushed.offset = frame.offset;
    pushed.gives = frame.gives;
    pushed.called_alone = frame.called_alone;
    for (Value* value : frame.slots) pushed.values.push_back(value ? rebuild(value) : plan::kNull);
    for (Value* value : frame.stack) pushed.values.push_back(rebuild(value));
    pushed.depth = static_cast<int>(frame.stack.size());
    pushed.borrowed = cpython::borrowed_items(frame.function->code, frame.offset, frame.stack.size());
  }
}

/// Ends the segment earlier if it leaves a mode open: a mode that one graph enters cannot be left by another.
void check_modes_left(Trace& trace) {
  const size_t entered = trace.scope().modes().first_open();
  if (entered != SIZE_MAX)
    trace.progress.stop_at(entered, Reason::ReplayUnsupported, "a mode that the segment enters and does not leave");
}

/// Collects what is needed if the graph raises after an irreversible write: the nodes' places and which effects precede
/// each.
class Lasting {
 public:
  explicit Lasting(const Trace& trace)
      : trace_(trace), first_(trace.scope().writes().lasting(trace.scope().inputs().objects())) {
    if (first_) made_ = trace.scope().graph().nodes();
  }
  /// Call after the effect's replay was emitted. Parts are ordered; from the first that needs a graph output on, none
  /// is noted.
  void note(const effects::Effect& effect, const Rebuilder& rebuild) {
    if (!first_ || !rebuild.outputs().empty()) return;
    settled_ = std::max(settled_, effect.settled);
    happened_.push_back({settled_, rebuild.operations()});
  }
  /// Call when the graph has its final nodes.
  std::unique_ptr<plan::LastingWrites> take() {
    if (!first_) return nullptr;
    auto result = std::make_unique<plan::LastingWrites>();
    for (const graph::Node* node : trace_.scope().graph().nodes()) {
      if (node->id < first_->id) ++result->first;
      result->place_of.push_back(place(*result, node->position));
    }
    for (const plan::LastingWrites::Happened& happened : happened_)
      result->happened.push_back({place_in_graph(happened.node), happened.operations});
    return result;
  }

 private:
  int place(plan::LastingWrites& result, const graph::Position* position) {
    if (!position) return -1;
    if (auto known = places_.find(position); known != places_.end()) return known->second;
    const int caller = place(result, position->caller);
    result.places.push_back({share(reinterpret_cast<PyObject*>(position->code)), position->unit, caller});
    return places_[position] = static_cast<int>(result.places.size()) - 1;
  }

  /// The index in the final graph of the first remaining node made after the first `made` nodes.
  size_t place_in_graph(size_t made) const {
    if (made >= made_.size()) return trace_.scope().graph().nodes().size();
    const auto& nodes = trace_.scope().graph().nodes();
    auto found =
        std::find_if(nodes.begin(), nodes.end(), [&](const graph::Node* node) { return node->id >= made_[made]->id; });
    return static_cast<size_t>(found - nodes.begin());
  }

  const Trace& trace_;
  const graph::Node* first_;
  std::vector<graph::Node*> made_;  // all nodes, before unneeded ones are dropped
  std::unordered_map<const graph::Position*, int> places_;
  std::vector<plan::LastingWrites::Happened> happened_;  // by number of nodes made before
  size_t settled_ = 0;
};

/// The graph's inputs as indices into what a guard check fetches: objects first, then numbers.
std::vector<int> graph_inputs(const graph::Graph& graph, Rebuilder& rebuild) {
  const auto& placeholders = graph.placeholders();
  auto is_number = [](const graph::Node* input) { return source::is_number(input->source->kind); };
  for (const graph::Node* input : placeholders)
    if (!is_number(input)) rebuild.read(input->source);
  const int reads = static_cast<int>(rebuild.reads().size());
  std::vector<int> inputs;
  for (const graph::Node* input : placeholders)
    inputs.push_back(is_number(input) ? reads + rebuild.number(input->symbol) : rebuild.read(input->source));
  return inputs;
}

/// Ends the segment if a view of CustomViews would be recreated from its base: such a view may be an output only if no
/// other output shares its memory.
void refuse_views_made_anew(Trace& trace) {
  const auto& outputs = trace.scope().graph().outputs;
  auto leaves = [&](const Tensor* tensor) {
    return tensor->node && std::find(outputs.begin(), outputs.end(), tensor->node) != outputs.end();
  };
  auto any_leaves = [&](auto&& self, const Tensor* tensor, const Tensor* except) -> bool {
    if (tensor == except) return false;
    return leaves(tensor) || std::any_of(tensor->views.begin(), tensor->views.end(),
                                         [&](const Tensor* view) { return self(self, view, except); });
  };
  for (const Tensor* view : trace.scope().state<CustomViews>()) {
    bool anew = leaves(view) && any_leaves(any_leaves, storage_root(view), view);
    for (const Tensor* further : view->views) anew |= any_leaves(any_leaves, further, nullptr);
    if (anew)
      trace.progress.stop_at(view->made_at - 1, Reason::ReplayUnsupported,
                             "a view that an autograd.Function returns, elsewhere");
  }
}

/// True if a gradient may flow back into the graph.
bool is_differentiated(Trace& trace) {
  static PyObject* const requires_grad = intern("requires_grad");
  bool found = !trace.scope().writes().gained().empty();
  for (const graph::Node* output : trace.scope().graph().outputs)
    found |= output->record && output->record->requires_grad;
  trace.scope().writes().each_input(
      [&](PyObject* input) { found |= take(PyObject_GetAttr(input, requires_grad)).get() == Py_True; });
  return found;
}

/// Replaces checkpoints that draw random numbers by plain calls if nothing is differentiated: see RandomCheckpoints.
void run_checkpoints_once(Trace& trace) {
  const auto& checkpoints = trace.scope().state<RandomCheckpoints>();
  if (checkpoints.empty() || is_differentiated(trace)) return;
  PyObject* const wrap = of_torch::object(of_torch::Wrap);
  for (graph::Node* node : checkpoints) {
    node->call.target = wrap;
    node->call.keyword_count = 0;
  }
}

/// True for a change of part of a class made in the segment, which needs no replay. If the class escapes, the Rebuilder
/// ends the segment.
bool dies_with_its_class(const Trace& trace, const effects::Effect& effect) {
  return effect.target && effect.target->source && trace.facts.is_exempt(effect.target->source);
}

}  // namespace

std::vector<int> classed_inputs(const Trace& trace) {
  std::vector<int> found;
  if (!trace.scope().has_classes()) return found;
  PyObject* const fake = of_torch::if_loaded(of_torch::FakeTensor);  // treated as a plain tensor
  const auto& placeholders = trace.scope().graph().placeholders();
  for (size_t i = 0; i < placeholders.size(); ++i) {
    PyObject* input = placeholders[i]->record ? trace.scope().inputs().object(placeholders[i]) : nullptr;
    if (!input || !aten::is_tensor(input) || aten::is_exact_tensor_type(Py_TYPE(input))) continue;
    if (placeholders[i]->record->context) continue;  // a wrapper: its class's code runs in the graph
    if (reinterpret_cast<PyObject*>(Py_TYPE(input)) != fake) found.push_back(static_cast<int>(i));
  }
  return found;
}

plan::GuardDescription describe_guards(const Trace& trace, std::vector<guards::Fact> facts,
                                       std::vector<const Source*> reads) {
  return {trace.pool, std::move(facts), std::move(reads), trace.scope().modes().at_start(),
          guards::kept(trace.shapes.guards())};
}

std::unique_ptr<plan::Segment> finish(Trace& trace, const End& end) {
  check_modes_left(trace);
  Rebuilder rebuild(trace);
  Lasting lasting(trace);
  for (const effects::Effect& effect : trace.effects().entries()) {
    if (dies_with_its_class(trace, effect)) continue;
    rebuild.replay(effect);
    lasting.note(effect, rebuild);
  }
  if (aten::grad_enabled() != trace.scope().modes().grad_at_start()) rebuild.set_grad_mode(aten::grad_enabled());
  plan::Exit exit;
  lower_exit(rebuild, end, exit);
  trace.scope().graph().outputs = rebuild.outputs();
  for (graph::Node* node : trace.scope().graph().outputs) node->output = true;
  refuse_views_made_anew(trace);
  trace.scope().state<ReadLater>().check(trace, rebuild);
  run_checkpoints_once(trace);
  trace.scope().graph().remove_redundant_grad_modes(trace.scope().modes().grad_at_start());
  trace.scope().graph().remove_dead();
  trace.scope().graph().share_bodies();
  guard_identity(trace);
  trace.scope().place_symbols();
  std::vector<plan::Restored> restored;
  for (auto [tensor, content] : trace.scope().writes().restored(trace.scope().inputs().objects()))
    restored.push_back({rebuild.read(tensor->source), content});
  std::vector<int> inputs = graph_inputs(trace.scope().graph(), rebuild);
  std::vector<guards::Fact> facts = facts_needed(trace, rebuild.reads());
  plan::GuardDescription guards = describe_guards(trace, std::move(facts), rebuild.reads());
  guards.shapes.numbers = rebuild.numbers();
  auto segment = std::make_unique<plan::Segment>(std::move(guards));
  segment->graph_inputs = std::move(inputs);
  segment->classed = classed_inputs(trace);
  segment->graph_outputs = static_cast<int>(trace.scope().graph().outputs.size());
  segment->random = trace.scope().random();
  segment->effects = effects::print(trace.effects());
  segment->restored = std::move(restored);
  segment->lasting = lasting.take();
  segment->iterates = trace.iterates();
  segment->sets_modes = trace.scope().modes().are_set();
  segment->operations = static_cast<int>(trace.scope().graph().length());
  for (const graph::Node* node : trace.scope().graph().nodes()) segment->operators += node->operators;
  segment->levels = kLevelsOfCall * trace.progress.deepest() + kLevelsOfGraph;
  rebuild.number_registers(exit);
  segment->replay = rebuild.take_replay();
  segment->exit = std::move(exit);
  return segment;
}

}  // namespace gramme::trace
