// Test-only bindings of the rooms graph and backend: build graphs from Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/testing.h"
#include "api/testing_calls.h"
#include "aten/classes.h"
#include "backend/compile.h"
#include "backend/fx.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gramme::api {
namespace {

using meta::Argument;

/// A graph made by a test.
class TestGraph {
 public:
  /// path: (kind of source, key or index) from the root; ("Global", name) stands for the root function's global.
  Ref placeholder(nb::list path, nb::object example) {
    const source::Source* source = nullptr;
    for (nb::handle step : path) source = extend(source, nb::cast<std::string>(step[0]), step[1]);
    bool tensor = aten::is_tensor(example.ptr());
    graph::Node* node = graph_.placeholder(source, tensor ? meta::record_of(example.ptr()) : nullptr);
    if (!tensor) node->number_type = Py_TYPE(example.ptr());
    kept_.append(path);
    inputs_.emplace_back(node, share(example.ptr()));
    return {node};
  }

  Ref call(nb::object target, nb::args args, nb::kwargs kwargs) {
    kept_.append(nb::make_tuple(target, args, kwargs));
    meta::Call call = Caller(arena_).call(target, args, kwargs);
    graph::Node* node = graph_.call(call, nullptr);
    node->effect = true;
    guarded([&] { infer(*node); });
    return {node};
  }

  void hint(Ref ref, nb::str name) {
    kept_.append(name);
    graph_.hint(ref.node, name.ptr());
  }

  void pure(Ref ref) { ref.node->effect = false; }

  void output(std::vector<Ref> refs) {
    for (Ref ref : refs) {
      ref.node->output = true;
      graph_.outputs.push_back(ref.node);
    }
  }

  void finish() {
    graph_.remove_dead();
    graph_.verify();
  }

  std::string print() const { return graph_.print(); }
  void miscount(Ref ref) { ++ref.node->uses; }

  nb::object to_fx() {
    return guarded([&] { return nb::steal(backend::to_fx(graph_, inputs()).release()); });
  }

  nb::object compile(nb::object backend) {
    return guarded([&] {
      Owned<> module = backend::to_fx(graph_, inputs());
      return nb::steal(backend::compile(backend.ptr(), module, inputs()).function.release());
    });
  }

 private:
  /// Records what the call returns; an item of a sequence is that item of the earlier call's result.
  void infer(graph::Node& node) {
    const meta::Call& call = node.call;
    bool known = true;
    meta::each_leaf(call, [&](const Argument& leaf) { known &= leaf.kind == Argument::Number || leaf.record; });
    const meta::Result* result = nullptr;
    if (known) {
      const meta::Outcome& outcome = meta::infer(call);
      if (!outcome.error) result = &outcome.result;
    } else if (auto of = results_.find(call.args[0].node); of != results_.end() && call.arg_count == 2) {
      result = &of->second->items.at(static_cast<size_t>(PyLong_AsLong(call.args[1].object)));
    }
    if (!result) return;
    results_[&node] = result;
    node.record = result->record;
    if (result->kind == meta::Result::Number) node.number_type = reinterpret_cast<PyTypeObject*>(result->object.get());
  }

  const source::Source* extend(const source::Source* base, const std::string& name, nb::handle key) {
    using source::Kind;
    if (name == "Local") return pool_.local(0, key.ptr());
    if (name == "Stack") return pool_.stack(nb::cast<int>(key));
    if (name == "Global") return pool_.child(pool_.child(pool_.function(), Kind::Globals), Kind::Value, key.ptr());
    for (int kind = 0;; ++kind) {
      auto k = static_cast<Kind>(kind);
      if (name != source::kind_name(k)) continue;
      if (key.is_none()) return pool_.child(base, k);
      return nb::isinstance<nb::int_>(key) && k != Kind::Value ? pool_.child(base, k, nb::cast<int64_t>(key))
                                                               : pool_.child(base, k, key.ptr());
    }
  }

  std::vector<Owned<>> inputs() const {
    std::vector<Owned<>> result;
    for (const graph::Node* node : graph_.placeholders())
      for (const auto& [of, object] : inputs_)
        if (of == node) result.push_back(object);
    return result;
  }

  Arena arena_;
  source::Pool pool_;
  graph::Graph graph_{arena_};
  std::map<const graph::Node*, const meta::Result*> results_;
  nb::list kept_;
  std::vector<std::pair<graph::Node*, Owned<>>> inputs_;
};

}  // namespace

void bind_graph_testing(nb::module_& m) {
  nb::exception<InternalError>(m, "GraphError");
  nb::class_<TestGraph>(m, "TestGraph")
      .def(nb::init<>())
      .def("placeholder", &TestGraph::placeholder)
      .def("call", &TestGraph::call)
      .def("hint", &TestGraph::hint)
      .def("pure", &TestGraph::pure)
      .def("output", &TestGraph::output)
      .def("finish", &TestGraph::finish)
      .def("print", &TestGraph::print)
      .def("miscount", &TestGraph::miscount)
      .def("to_fx", &TestGraph::to_fx)
      .def("compile", &TestGraph::compile);
}

}  // namespace gramme::api
