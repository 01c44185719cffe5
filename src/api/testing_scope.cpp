// Test-only bindings of the parts of a scope, each without a scope or a capture.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <deque>

#include "api/testing.h"
#include "api/testing_calls.h"
#include "effects/write_ledger.h"
#include "meta/record.h"
#include "trace/data_numbers.h"
#include "trace/graph_inputs.h"
#include "trace/mode_stack.h"
#include "trace/shown.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gramme::api {
namespace {

/// A ledger of tensors and nodes, which the test knows by their numbers.
class TestLedger {
 public:
  /// An input of the graph.
  size_t input(nb::object tensor) {
    value::Tensor& made = add(tensor, pool_.stack(static_cast<int>(tensors_.size())));
    made.node = graph_.placeholder(made.source, made.record);
    inputs_[made.node] = made.object;
    return tensors_.size() - 1;
  }
  /// A tensor that the graph computes: `of` is the number of the one it views, if any.
  size_t made(nb::object tensor, std::optional<size_t> of) {
    value::Tensor& made = add(tensor, nullptr);
    made.node = nodes_.at(node());
    if (!of) return tensors_.size() - 1;
    made.base = &tensors_.at(*of);
    made.differentiable = true;
    made.base->views.push_back(&made);
    return tensors_.size() - 1;
  }
  /// A call in the present graph.
  size_t node() {
    meta::Call call;
    call.target = Py_None;
    nodes_.push_back(within_->call(call, nullptr));
    return nodes_.size() - 1;
  }
  void enter_body() { within_ = within_->make_body("body"); }
  /// Ends the body; the node runs it. True if the body wrote to a tensor from outside.
  bool leave_body(size_t caller) {
    graph::Graph* body = within_;
    within_ = body->around();
    ledger_.settle(nodes_.at(caller), body);
    return body->writes_around;
  }
  /// A write by the node, after which the tensor is like `after`.
  void write(size_t tensor, size_t node, nb::object after, bool restorable, bool overwritten) {
    value::Tensor* written = &tensors_.at(tensor);
    const meta::Record* before = written->record;
    if (!after.is_none()) written->record = meta::record_of(after.ptr());
    ledger_.refuse_write(written, before);
    ledger_.note_memory(written, before, 1);
    ledger_.note_gain(written, before);
    ledger_.note_input(written, nodes_.at(node), overwritten, [=](const value::Tensor*) { return restorable; });
    ledger_.note_done(false);
    effects::WriteLedger::note_around(written, within_);
  }
  void expect_raise(bool handled) { ledger_.expect_raise(raising(handled)); }
  void python(size_t node, bool handled, bool breaks) {
    effects::Raising now = raising(handled);
    now.breaks = breaks;
    ledger_.expect_python(false, now);
    ledger_.note_python(nodes_.at(node));
  }
  void close(size_t tensor) { ledger_.set_late(&tensors_.at(tensor), effects::Late::Closed); }
  void keep_unwritten(size_t tensor) { ledger_.keep_unwritten(&tensors_.at(tensor)); }
  bool is_closed(size_t tensor) const { return ledger_.late(&tensors_.at(tensor)) == effects::Late::Closed; }

  std::vector<std::pair<size_t, bool>> restored() const {
    std::vector<std::pair<size_t, bool>> found;
    for (const auto& [tensor, content] : ledger_.restored(inputs_)) found.emplace_back(number(tensor), content);
    return found;
  }
  std::optional<size_t> lasting() const {
    const auto found = std::ranges::find(nodes_, ledger_.lasting(inputs_));
    return found == nodes_.end() ? std::nullopt : std::optional(static_cast<size_t>(found - nodes_.begin()));
  }
  std::vector<size_t> written() const { return numbers(ledger_.inputs()); }
  std::vector<size_t> gained() const { return numbers(ledger_.gained()); }
  bool is_written_around(size_t tensor) const { return ledger_.is_written_around(&tensors_.at(tensor)); }
  bool requires_grad(size_t tensor) const { return tensors_.at(tensor).record->requires_grad; }

 private:
  static effects::Raising raising(bool handled) {
    return {.runs = true,
            .locates = true,
            .functionalizes = false,
            .breaks = true,
            .after_effects = false,
            .handles = [=](bool) { return handled; }};
  }
  value::Tensor& add(nb::object tensor, const source::Source* source) {
    kept_.append(tensor);
    value::Tensor& made = tensors_.emplace_back(source, source ? tensor.ptr() : nullptr);
    made.record = meta::record_of(tensor.ptr());
    return made;
  }
  size_t number(const value::Tensor* tensor) const {
    return static_cast<size_t>(std::ranges::find_if(tensors_, [&](const auto& each) { return &each == tensor; }) -
                               tensors_.begin());
  }
  std::vector<size_t> numbers(const auto& tensors) const {
    std::vector<size_t> found;
    for (const value::Tensor* tensor : tensors) found.push_back(number(tensor));
    return found;
  }

  Arena arena_;
  source::Pool pool_;
  graph::Graph graph_{arena_};
  graph::Graph* within_ = &graph_;
  effects::WriteLedger ledger_;
  effects::WriteLedger::Inputs inputs_;
  std::deque<value::Tensor> tensors_;
  std::vector<graph::Node*> nodes_;
  nb::list kept_;
};

/// Steps and modes of no program: a function mode is known by its step.
class TestModes {
 public:
  void enter(size_t step) { modes_.enter(step); }
  void leave(size_t step) { modes_.leave(step); }
  void enter_level(size_t step) { modes_.enter_level({meta::Level::Grad, 0, 0, true}, step); }
  void leave_level() { modes_.leave_level(); }
  std::optional<size_t> first_open() const {
    return modes_.first_open() == SIZE_MAX ? std::nullopt : std::optional(modes_.first_open());
  }
  void push(size_t step) { modes_.push_function_mode({nullptr, step}); }
  size_t pop() { return modes_.pop_function_mode().step; }
  void switch_handlers(int by) { modes_.switch_handlers(by); }
  bool handlers_on() const { return modes_.handlers_on(); }
  void when_put_back(nb::callable undo) {
    modes_.when_put_back([undo] { undo(); });
  }
  void put_back() { modes_.put_back(); }
  void enter_body() { modes_.enter_body(); }
  bool leave_body() { return modes_.leave_body(); }
  bool is_body_in_level() const { return modes_.is_body_in_level(); }
  void default_dtype(nb::object before, nb::object now) { modes_.note_default_dtype(before.ptr(), now.ptr()); }
  bool has_other_dtype() const { return modes_.has_other_dtype(); }

 private:
  trace::ModeStack modes_;
};

/// Nodes are known by their numbers, symbols by theirs.
class TestInputs {
 public:
  size_t tensor(nb::object tensor) {
    return number_of(inputs_.add(next_source(), meta::record_of(tensor.ptr()), kept(tensor), nullptr));
  }
  size_t symbol(int64_t symbol, nb::object now) {
    return number_of(inputs_.add_symbol(shape::symbol(symbol), next_source(), kept(now), nullptr));
  }
  /// A call that returns the number.
  size_t bind(int64_t symbol) {
    graph::Node* node = call(graph_);
    inputs_.bind(shape::symbol(symbol), node);
    return number_of(node);
  }
  std::optional<size_t> find_symbol(int64_t symbol) {
    graph::Node* node = inputs_.symbol(shape::symbol(symbol));
    return node ? std::optional(number_of(node)) : std::nullopt;
  }
  nb::object object(size_t node) const { return nb::borrow(inputs_.object(nodes_.at(node))); }
  std::vector<size_t> placeholders() {
    std::vector<size_t> found;
    for (graph::Node* node : graph_.placeholders()) found.push_back(number_of(node));
    return found;
  }
  /// Computes the symbol's double anew, in the graph or in its only body. Returns the node to be used.
  size_t compute(int64_t symbol, bool in_body) {
    graph::Graph& graph = in_body ? *body_ : graph_;
    meta::Argument made;
    made.node = call(graph);
    return number_of(inputs_.keep_computed(&graph, doubled(symbol), made).node);
  }
  bool is_computed(int64_t symbol, bool in_body) const {
    return inputs_.computed(in_body ? body_ : &graph_, doubled(symbol)) != nullptr;
  }

 private:
  static shape::Expr doubled(int64_t symbol) { return shape::multiply(shape::symbol(symbol), shape::constant(2)); }
  const source::Source* next_source() { return pool_.stack(static_cast<int>(nodes_.size())); }
  PyObject* kept(nb::object object) {
    kept_.append(object);
    return object.ptr();
  }
  static graph::Node* call(graph::Graph& graph) {
    meta::Call call;
    call.target = Py_None;
    return graph.call(call, nullptr);
  }
  size_t number_of(graph::Node* node) {
    const auto known = std::ranges::find(nodes_, node);
    const auto number = static_cast<size_t>(known - nodes_.begin());
    if (known == nodes_.end()) nodes_.push_back(node);
    return number;
  }

  Arena arena_;
  source::Pool pool_;
  graph::Graph graph_{arena_};
  graph::Graph* body_ = graph_.make_body("body");
  trace::GraphInputs inputs_{graph_};
  std::vector<graph::Node*> nodes_;
  nb::list kept_;
};

/// Looks at real tensors, before or after inputs of a graph are made.
class TestShown {
 public:
  void add_input(nb::object tensor) {
    kept_.append(tensor);
    graph_.placeholder(pool_.stack(static_cast<int>(nb::len(kept_))), meta::record_of(tensor.ptr()));
  }
  void look_at(nb::object object) { shown_.look_at(lazy(object)); }
  bool look_for_constant(nb::list objects) {
    auto* tuple = arena_.make<value::Tuple>();
    for (nb::handle object : objects) tuple->items.push_back(lazy(nb::borrow(object)));
    return shown_.look_for_constant(tuple);
  }
  /// True if the first tensor, an input before which so many were made, comes before the second.
  bool is_before(nb::object first, size_t made_before, nb::object second, size_t made_before_second) const {
    return shown_.place(first.ptr(), made_before) < shown_.place(second.ptr(), made_before_second);
  }

 private:
  value::Value* lazy(nb::object object) {
    kept_.append(object);
    return arena_.make<value::Lazy>(pool_.stack(0), object.ptr());
  }

  Arena arena_;
  source::Pool pool_;
  graph::Graph graph_{arena_};
  trace::Shown shown_{graph_};
  nb::list kept_;
};

/// Number nodes are known by their numbers, and so are tensors.
class TestDataNumbers {
 public:
  TestDataNumbers() : nodes_(4), tensors_(4) {}
  /// Infers the call; the number of sizes that its data decides.
  size_t infer(nb::object target, nb::args args) {
    kept_.append(args);
    return guarded([&] { return numbers_.infer(caller_.call(target, args, nb::kwargs())).made.size(); });
  }
  bool any() const { return numbers_.any(); }
  void wait(int64_t symbol) { numbers_.wait(shape::symbol(symbol)); }
  size_t take_waiting() { return numbers_.take_waiting().size(); }
  void note_tensor(size_t number, size_t tensor) { numbers_.note_tensor(&nodes_.at(number), &tensors_.at(tensor)); }
  std::optional<size_t> tensor_of(size_t number) const { return number_of(numbers_.tensor_of(&nodes_.at(number))); }
  void note_item(size_t number, size_t tensor, size_t writes) {
    numbers_.note_item(&nodes_.at(number), &tensors_.at(tensor), writes);
  }
  std::optional<size_t> item_of(size_t number, size_t writes) const {
    return number_of(numbers_.item_of(&nodes_.at(number), writes));
  }

 private:
  std::optional<size_t> number_of(const value::Tensor* tensor) const {
    return tensor ? std::optional(static_cast<size_t>(tensor - tensors_.data())) : std::nullopt;
  }

  Arena arena_;
  Caller caller_{arena_};
  shape::Assumptions assumptions_;
  const meta::DataDependence allowed_{true, true};
  trace::DataNumbers numbers_{assumptions_, allowed_};
  std::vector<graph::Node> nodes_;
  std::vector<value::Tensor> tensors_;
  nb::list kept_;
};

}  // namespace

void bind_scope_testing(nb::module_& m) {
  nb::class_<TestLedger>(m, "TestLedger")
      .def(nb::init<>())
      .def("input", &TestLedger::input)
      .def("made", &TestLedger::made, "tensor"_a, "of"_a = nb::none())
      .def("node", &TestLedger::node)
      .def("enter_body", &TestLedger::enter_body)
      .def("leave_body", &TestLedger::leave_body)
      .def("write", &TestLedger::write, "tensor"_a, "node"_a, "after"_a = nb::none(), "restorable"_a = true,
           "overwritten"_a = false)
      .def("expect_raise", &TestLedger::expect_raise, "handled"_a = false)
      .def("python", &TestLedger::python, "node"_a, "handled"_a = false, "breaks"_a = true)
      .def("close", &TestLedger::close)
      .def("keep_unwritten", &TestLedger::keep_unwritten)
      .def("is_closed", &TestLedger::is_closed)
      .def("restored", &TestLedger::restored)
      .def("lasting", &TestLedger::lasting)
      .def("written", &TestLedger::written)
      .def("gained", &TestLedger::gained)
      .def("is_written_around", &TestLedger::is_written_around)
      .def("requires_grad", &TestLedger::requires_grad);
  nb::class_<TestModes>(m, "TestModes")
      .def(nb::init<>())
      .def("enter", &TestModes::enter)
      .def("leave", &TestModes::leave)
      .def("enter_level", &TestModes::enter_level)
      .def("leave_level", &TestModes::leave_level)
      .def("first_open", &TestModes::first_open)
      .def("push", &TestModes::push)
      .def("pop", &TestModes::pop)
      .def("switch_handlers", &TestModes::switch_handlers)
      .def("handlers_on", &TestModes::handlers_on)
      .def("when_put_back", &TestModes::when_put_back)
      .def("put_back", &TestModes::put_back)
      .def("enter_body", &TestModes::enter_body)
      .def("leave_body", &TestModes::leave_body)
      .def("is_body_in_level", &TestModes::is_body_in_level)
      .def("default_dtype", &TestModes::default_dtype)
      .def("has_other_dtype", &TestModes::has_other_dtype);
  nb::class_<TestInputs>(m, "TestInputs")
      .def(nb::init<>())
      .def("tensor", &TestInputs::tensor)
      .def("symbol", &TestInputs::symbol)
      .def("bind", &TestInputs::bind)
      .def("find_symbol", &TestInputs::find_symbol)
      .def("object", &TestInputs::object)
      .def("placeholders", &TestInputs::placeholders)
      .def("compute", &TestInputs::compute, "symbol"_a, "in_body"_a)
      .def("is_computed", &TestInputs::is_computed, "symbol"_a, "in_body"_a);
  nb::class_<TestShown>(m, "TestShown")
      .def(nb::init<>())
      .def("add_input", &TestShown::add_input)
      .def("look_at", &TestShown::look_at)
      .def("look_for_constant", &TestShown::look_for_constant)
      .def("is_before", &TestShown::is_before);
  nb::class_<TestDataNumbers>(m, "TestDataNumbers")
      .def(nb::init<>())
      .def("infer", &TestDataNumbers::infer)
      .def("any", &TestDataNumbers::any)
      .def("wait", &TestDataNumbers::wait)
      .def("take_waiting", &TestDataNumbers::take_waiting)
      .def("note_tensor", &TestDataNumbers::note_tensor)
      .def("tensor_of", &TestDataNumbers::tensor_of)
      .def("note_item", &TestDataNumbers::note_item, "number"_a, "tensor"_a, "writes"_a)
      .def("item_of", &TestDataNumbers::item_of, "number"_a, "writes"_a);
}

}  // namespace gramme::api
