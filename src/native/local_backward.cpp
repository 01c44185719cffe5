// The node, which observes autograd's graph, runs its tape, or makes it again.
#include "native/local_backward.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/Exceptions.h>  // sees pybind11: python_error
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_set>

#include "aten/python.h"
#include "base/error.h"
#include "base/gil.h"
#include "base/imported.h"
#include "base/shared.h"
#include "native/call.h"
#include "torch/names.h"
#include "training/compiled.h"
#include "training/forward_call.h"
#include "training/graft.h"
#include "training/leaves.h"
#include "training/plain_forward.h"

namespace gramme::native {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using torch::dynamo::autograd::CompiledNodeArgs;
using torch::dynamo::autograd::SwapSavedVariables;
using NodePtr = c10::intrusive_ptr<Node>;

/// Autograd's nodes between the output and the inputs, the earliest made first. Empty if another way leads out, or not
/// one leads to each input: the engine would sum the gradients of two in another order.
std::vector<NodePtr> nodes_between(const Edge& root, const edge_list& ends) {
  std::vector<NodePtr> nodes;
  std::unordered_set<const Node*> known;
  std::unordered_set<std::ptrdiff_t> met;
  auto follow = [&](const Edge& edge) {
    const auto end = std::ranges::find(ends, edge) - ends.begin();
    if (end < std::ssize(ends)) return met.insert(end).second;
    if (std::ranges::any_of(ends, [&](const Edge& other) { return other.function == edge.function; })) return false;
    if (edge.function->num_outputs() == 0) return false;
    if (known.insert(edge.function.get()).second) nodes.push_back(edge.function);
    return true;
  };
  if (!follow(root)) return {};
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const Edge& edge : edge_list(nodes[i]->next_edges()))
      if (edge.is_valid() && !follow(edge)) return {};
  if (met.size() != ends.size()) return {};
  std::ranges::sort(nodes, {}, [](const NodePtr& node) { return node->sequence_nr(); });
  return nodes;
}

/// Scope in which the nodes' graph ends at its ends: further nodes may lead from one to another.
struct Cut {
  Cut(const std::vector<NodePtr>& nodes, const edge_list& ends) : exits(ends.size()) {
    for (const NodePtr& node : nodes)
      for (Edge& edge : node->next_edges()) {
        const auto end = std::ranges::find(ends, edge) - ends.begin();
        if (!edge.is_valid() || end == std::ssize(ends)) continue;
        exits[static_cast<size_t>(end)] = Edge(c10::make_intrusive<Exit>(edge), 0);
        before_.emplace_back(&edge, std::exchange(edge, exits[static_cast<size_t>(end)]));
      }
  }
  ~Cut() {
    for (auto& [edge, before] : before_) *edge = std::move(before);
  }
  Cut(const Cut&) = delete;
  edge_list exits;  // by end

 private:
  std::vector<std::pair<Edge*, Edge>> before_;
};

/// Scope in which what the forward kept is served to its calls.
class Serving {
 public:
  Serving(const LocalPlan& plan, const variable_list& kept) {
    const Owned<> calls = take(PyList_New(0));
    for (const LocalPlan::Call& call : plan.calls) {
      const Owned<> result =
          call.kept < 0 ? share(Py_None) : aten::object_of(without_history(kept[static_cast<size_t>(call.kept)]));
      check(PyList_Append(calls.get(), take(Py_BuildValue("(sO)", call.name.c_str(), result.get())).get()));
    }
    mode_ = take(PyObject_CallOneArg(imported("gramme._served", "Served").get(), calls.get()));
    take(PyObject_CallMethod(mode_.get(), "__enter__", nullptr));
  }
  ~Serving() {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (!Owned<>::steal(PyObject_CallMethod(mode_.get(), "__exit__", "OOO", Py_None, Py_None, Py_None)))
      PyErr_WriteUnraisable(mode_.get());
    PyErr_Restore(type, value, traceback);
  }
  Serving(const Serving&) = delete;

 private:
  Owned<> mode_;
};

/// A tensor that comes from a collective which may still run: the tensor inside of its wrapper, when it is done.
at::Tensor arrived(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.key_set().has_any(c10::python_ks)) return tensor;
  const GilHeld gil;
  const Owned<> object = aten::object_of(tensor);
  if (reinterpret_cast<PyObject*>(Py_TYPE(object.get())) != class_of_waiting()) return tensor;
  const Owned<> plain = inside(object.get());
  return aten::tensor_of(take(PyObject_CallOneArg(of_torch::object(of_torch::WaitTensor), plain.get())).get());
}

class LocalBackward final : public Node {
 public:
  LocalBackward(std::shared_ptr<LocalRun> run, const at::Tensor& output, edge_list edges)
      : Node(std::move(edges)), run_(std::move(run)) {
    add_input_metadata(output);
  }

  std::string name() const override { return plan_ ? plan_->name : root_.function->name(); }

  void release_variables() override {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (!plan_ || root_.function || !plan_->saves || compiled_) return;  // autograd's nodes release what they saved
    released_ = true;
    forget();
  }

  /// Autograd's graph stands behind the node.
  void stand_before(Edge root, std::vector<NodePtr> nodes, std::shared_ptr<LocalCalls> calls) {
    root_ = std::move(root);
    nodes_ = std::move(nodes);
    calls_ = std::move(calls);
  }

  /// The node has what the tapes of the plan kept.
  void keep(std::shared_ptr<const LocalPlan> plan, uint64_t first_number, variable_list kept,
            const variable_list& inputs, const variable_list& locals) {
    plan_ = std::move(plan);
    first_number_ = first_number;
    kept_ = std::move(kept);
    locals_.resize(locals.size());
    for (size_t i = 0; i < locals.size(); ++i) {
      if (!plan_->reads[i]) continue;
      saved_.emplace_back(inputs[i], false);
      locals_[i] = without_history(locals[i]);
    }
  }

  // For compiled autograd, which releases what nodes saved before it runs its graph.
  void compiled_args(CompiledNodeArgs& args) const override {
    compiled_ = true;
    collect(args);
  }
  variable_list apply_with_saved(const variable_list& gradients, SwapSavedVariables& saved) override {
    if (grafted_) return gradients;
    auto apply = [self = getptr()](variable_list&& gradients) {
      return static_cast<LocalBackward&>(*self).apply(std::move(gradients));
    };
    return call_in_graph(apply, next_edges(), gradients, saved);
  }

 private:
  variable_list apply(variable_list&& gradients) override {
    try {
      return apply_or_throw(std::move(gradients));
    } catch (const PythonError&) {
      const GilHeld gil;
      python_error error;  // in the form that the engine passes between threads
      error.persist();
      throw error;
    }
  }

  variable_list apply_or_throw(variable_list&& gradients) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (grafted_) return std::move(gradients);
    if (!gradients[0].defined()) return variable_list(num_outputs());
    const at::Tensor gradient = arrived(gradients[0]);
    std::vector<bool> wanted(num_outputs());
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = task_should_compute_output(i);
    const bool creates = c10::GradMode::is_enabled();
    std::optional<BackwardKey> key = creates || std::ranges::any_of(next_edges(), is_listened_to)
                                         ? std::nullopt
                                         : BackwardKey::read({gradient}, wanted);
    if (!root_.function) {
      check_saved();
      if (key && plan_->backward->key() == *key) return run_tape(gradient);
      make_graph();
    }
    if (key && calls_ && std::ranges::find(wanted, false) == wanted.end()) return observe(gradient, std::move(*key));
    const bool in_pass = !compiled_ && torch::autograd::get_current_graph_task_id() >= 0;
    if (in_pass && current_pass().reentrant_depth_ == 0) {
      graft();
      return {gradient};
    }
    return by_engine(gradient, wanted, creates);
  }

  /// What autograd does with what its nodes saved.
  void check_saved() const {
    TORCH_CHECK(!released_, torch::autograd::ERR_BACKWARD_TWICE);
    for (const SavedVariable& saved : saved_) saved.unpack();
  }

  void forget() {
    kept_.clear();
    saved_.clear();
    locals_.clear();
  }

  variable_list run_tape(const at::Tensor& gradient) {
    const bool keeps = compiled_ || torch::autograd::get_current_graph_task_keep_graph();
    variable_list given;
    for (const BackwardSource& source : plan_->backward->sources()) {
      if (source.kind == BackwardSource::Slot) {
        given.push_back(gradient);
        continue;
      }
      at::Tensor& kept = kept_at(source.index);
      given.push_back(keeps ? kept : std::move(kept));
    }
    variable_list found = plan_->backward->run(std::move(given));
    if (std::ranges::none_of(plan_->specs, [](const Owned<>& spec) { return static_cast<bool>(spec); })) return found;
    const GilHeld gil;
    for (size_t i = 0; i < found.size(); ++i)
      if (plan_->specs[i]) found[i] = wrapped(std::move(found[i]), plan_->specs[i].get());
    return found;
  }

  static at::Tensor wrapped(at::Tensor local, PyObject* spec) {
    return at::Tensor(aten::tensor_of(distributed(std::move(local), spec).get()));
  }

  at::Tensor& kept_at(Register r) {
    const auto input = std::ranges::find(plan_->inputs, r);
    if (input != plan_->inputs.end()) return locals_[static_cast<size_t>(input - plan_->inputs.begin())];
    return kept_[static_cast<size_t>(std::ranges::find(plan_->kept, r) - plan_->kept.begin())];
  }

  /// Lets the engine run autograd's graph, and that alone.
  variable_list by_engine(const at::Tensor& gradient, const std::vector<bool>& wanted, bool creates) {
    const Cut cut(nodes_, next_edges());
    edge_list exits;
    for (size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i]) exits.push_back(cut.exits[i]);
    variable_list found(wanted.size());
    if (exits.empty()) return found;
    const bool keeps = creates || torch::autograd::get_current_graph_task_keep_graph();
    variable_list left =
        torch::autograd::Engine::get_default_engine().execute({root_}, {gradient}, keeps, creates, false, exits);
    for (size_t i = 0, next = 0; i < wanted.size(); ++i)
      if (wanted[i]) found[i] = std::move(left[next++]);
    return found;
  }

  /// From now on autograd's nodes follow this one, as if it were not there.
  void graft() {
    change_edges({getptr()}, [&](torch::autograd::GraphTask&) { next_edges() = {root_}; });
    grafted_ = true;
    nodes_.clear();
    forget();
  }

  // ---- call 1

  /// Lets the engine run autograd's graph, and makes a plan of what it calls.
  variable_list observe(const at::Tensor& gradient, BackwardKey key) {
    Recorder& recorder = *calls_->recorder;
    const at::Tensor given = gradient.tensor_data();  // may have been seen in the forward
    const Register slot = recorder.add(given);
    recorder.forget();
    std::vector<Observed> observed;
    variable_list found;
    {
      const Recorder::Watch watch(recorder);
      found = by_engine(given, key.wanted, false);
      for (at::Tensor& made : found) made = arrived(made);
    }
    recorder.take(observed);
    {
      const GilHeld gil;
      std::string why;
      const std::shared_ptr<LocalPlan> plan = with_gil(new LocalPlan());
      std::vector<Register> leaving;
      for (const at::Tensor& made : found)
        if (why.empty()) why = leave(made, *plan, leaving);
      plan->nodes = nodes_.size();
      plan->name = root_.function->name();
      if (why.empty()) why = complete(*plan, *calls_, observed, slot, std::move(key), leaving);
      why.empty() ? run_->add(plan) : run_->refuse(calls_->key, why);
      calls_.reset();
    }
    for (at::Tensor& made : found)
      if (made.is_same(given)) made = gradient;
    return found;
  }

  /// Adds a gradient to what the backward's tape gives; returns why it cannot, or an empty text.
  std::string leave(const at::Tensor& gradient, LocalPlan& plan, std::vector<Register>& leaving) {
    if (!gradient.defined()) return "there is no gradient";
    const Owned<> object = aten::object_of(gradient);
    const bool is_wrapper = is_distributed(object.get());
    const Owned<> local = is_wrapper ? local_of(object.get()) : object;
    if (!is_plain_tensor(local.get())) return "a gradient waits";
    leaving.push_back(calls_->recorder->find(aten::tensor_of(local.get())));
    plan.specs.push_back(is_wrapper ? spec_of(object.get()) : Owned<>());
    return leaving.back() == kNone ? "a gradient is not made by operators" : "";
  }

  // ---- later calls

  /// Makes autograd's graph again, of stand-ins for the inputs, with their edges.
  void make_graph() {
    const GilHeld gil;
    const PlainForward plain;
    std::vector<Owned<>> objects;
    std::vector<PyObject*> inputs;
    for (size_t i = 0, next = 0; i < plan_->key.inputs.size(); ++i) {
      const LocalInput& input = plan_->key.inputs[i];
      if (!input.type) {
        objects.push_back(input.object);
      } else {
        at::Tensor local = plan_->reads[i] ? locals_[i] : stand_in(plan_->forms[i]);
        at::Tensor tensor = input.object ? wrapped(std::move(local), input.object.get()) : without_history(local);
        if (input.requires_grad) torch::autograd::impl::set_gradient_edge(tensor, next_edge(next++));
        objects.push_back(aten::object_of(tensor));
      }
      inputs.push_back(objects.back().get());
    }
    size_t failed = 0;
    bool odd = false;
    {
      const Serving serving(*plan_, kept_);
      const std::vector<Owned<>> outputs = run_->steps(inputs.data(), &failed, &odd);
      root_ = torch::autograd::impl::gradient_edge(aten::tensor_of(outputs[0].get()));
    }
    nodes_ = nodes_between(root_, next_edges());
    if (nodes_.size() != plan_->nodes) GRAMME_BUG("a run on local tensors has another graph than the first");
    for (size_t i = 0; i < nodes_.size(); ++i) nodes_[i]->set_sequence_nr(first_number_ + i);
    run_->refuse(plan_->key, "a backward needed the graph of autograd");
  }

  static at::Tensor stand_in(const Seen& form) {
    return at::empty_strided(form.sizes(), form.strides(), form.dtype()).zero_();
  }

  std::shared_ptr<LocalRun> run_;
  std::recursive_mutex mutex_;
  Edge root_;                   // autograd's graph, if it is there
  std::vector<NodePtr> nodes_;  // of that graph, in the order they were made
  bool grafted_ = false, released_ = false;
  mutable std::atomic<bool> compiled_ = false;  // compiled autograd went through the graph
  std::shared_ptr<LocalCalls> calls_;           // of a call through the dispatch, until it is observed
  // of a call by tape
  std::shared_ptr<const LocalPlan> plan_;
  uint64_t first_number_ = 0;
  variable_list kept_, locals_;  // by LocalPlan::kept; by input
  std::vector<SavedVariable> saved_;
};

/// The program's tensor, with the node.
Owned<> with_node(const at::Tensor& made, NodePtr node) {
  const at::Tensor output = without_history(made);
  torch::autograd::impl::set_gradient_edge(output, Edge(std::move(node), 0));
  return aten::object_of(output);
}

}  // namespace

bool is_listened_to(const Edge& edge) { return listener_at(edge) != Listener::Nobody; }

Owned<> hang(std::shared_ptr<LocalRun> run, std::shared_ptr<LocalCalls> calls, edge_list edges, PyObject* output) {
  const at::Tensor made = aten::tensor_of(output);
  Edge root;
  {
    const GilReleased released;  // finding an edge locks the tensor
    root = torch::autograd::impl::gradient_edge(made);
  }
  std::vector<NodePtr> nodes = nodes_between(root, edges);
  if (nodes.empty()) {
    run->refuse(calls->key, "the graph of autograd has another form");
    return share(output);
  }
  auto node = c10::make_intrusive<LocalBackward>(std::move(run), made, std::move(edges));
  node->stand_before(std::move(root), std::move(nodes), std::move(calls));
  return with_node(made, std::move(node));
}

Owned<> hang(std::shared_ptr<LocalRun> run, std::shared_ptr<const LocalPlan> plan, edge_list edges,
             std::span<PyObject* const> inputs, const variable_list& locals, variable_list made) {
  variable_list given(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (plan->reads[i]) given[i] = aten::tensor_of(inputs[i]);
  const uint64_t first_number = at::sequence_number::peek();
  for (uint64_t i = 0; i < plan->nodes; ++i) at::sequence_number::get_and_increment();  // of the nodes it stands for
  const at::Tensor output = std::move(made[0]);
  made.erase(made.begin());
  auto node = c10::make_intrusive<LocalBackward>(std::move(run), output, std::move(edges));
  {
    const GilReleased released;  // saving a tensor locks it
    node->keep(std::move(plan), first_number, std::move(made), given, locals);
  }
  return with_node(output, std::move(node));
}

}  // namespace gramme::native
