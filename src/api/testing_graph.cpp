// Test-only bindings of the rooms graph, meta and backend: build graphs and ask for metadata from Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <map>

#include "aten/spec.h"
#include "backend/compile.h"
#include "backend/fx.h"
#include "base/error.h"
#include "graph/graph.h"
#include "meta/infer.h"
#include "meta/numbers.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gramme::api {
namespace {

using meta::Argument;

/// A node in the hands of a test.
struct Ref {
  graph::Node* node;
};

/// A Python number that the call shall take for known only at run time.
struct RunTimeNumber {
  nb::object example;
  double bound;
};

nb::object borrow(PyObject* object) { return nb::borrow(object); }

/// Runs C++ that may throw with a Python error set.
template <class Body>
auto guarded(Body&& body) {
  try {
    return body();
  } catch (const PythonError&) {
    throw nb::python_error();
  }
}

/// Calls made of Python objects: tensors become nodes, one for each object.
class Caller {
 public:
  explicit Caller(Arena& arena) : arena_(arena) {}

  meta::Call call(nb::handle target, nb::args args, nb::kwargs kwargs) {
    meta::Call call;
    call.kind = nb::isinstance<nb::str>(target) ? meta::Call::Method : meta::Call::Function;
    call.target = target.ptr();
    if (call.kind == meta::Call::Method)
      call.target = PyUnicode_InternFromString(nb::cast<std::string>(target).c_str());
    call.arg_count = static_cast<uint32_t>(args.size());
    call.args = arguments(args);
    auto* names = static_cast<PyObject**>(arena_.bytes_for(sizeof(PyObject*) * (kwargs.size() + 1)));
    auto* values = array(kwargs.size());
    for (auto [name, value] : kwargs) {
      names[call.keyword_count] = name.ptr();
      values[call.keyword_count++] = argument(value);
    }
    call.keyword_names = names;
    call.keyword_args = values;
    return call;
  }

 private:
  Argument* array(size_t count) {
    auto* items = static_cast<Argument*>(arena_.bytes_for(sizeof(Argument) * (count + 1)));
    std::fill_n(items, count, Argument());
    return items;
  }

  template <class Sequence>
  const Argument* arguments(const Sequence& values) {
    auto* items = array(values.size());
    size_t i = 0;
    for (nb::handle value : values) items[i++] = argument(value);
    return items;
  }

  Argument argument(nb::handle value) {
    Argument result;
    if (nb::isinstance<Ref>(value)) {
      result.node = nb::cast<Ref>(value).node;
      result.kind = result.node->number_type ? Argument::Number : Argument::Tensor;
      result.record = result.node->record;
      result.object = example_of(result.node->number_type);
    } else if (nb::isinstance<RunTimeNumber>(value)) {
      result.kind = Argument::Number;
      result.object = nb::cast<RunTimeNumber&>(value).example.ptr();
      result.bound = nb::cast<RunTimeNumber&>(value).bound;
      result.node = arena_.make<graph::Node>();
    } else if (aten::is_tensor(value.ptr())) {
      result.kind = Argument::Tensor;
      graph::Node*& node = nodes_[value.ptr()];
      if (!node) node = arena_.make<graph::Node>();
      result.node = node;
      result.record = meta::record_of(value.ptr());
    } else if (PyTuple_Check(value.ptr()) && std::strcmp(Py_TYPE(value.ptr())->tp_name, "torch.Size") != 0) {
      result.kind = Argument::Tuple;
      if (!PyTuple_CheckExact(value.ptr())) result.object = reinterpret_cast<PyObject*>(Py_TYPE(value.ptr()));
      result.count = static_cast<uint32_t>(nb::len(value));
      result.items = arguments(nb::borrow<nb::tuple>(value));
    } else if (PyList_Check(value.ptr())) {
      result.kind = Argument::List;
      result.count = static_cast<uint32_t>(nb::len(value));
      result.items = arguments(nb::borrow<nb::list>(value));
    } else if (PySlice_Check(value.ptr())) {
      auto* slice = reinterpret_cast<PySliceObject*>(value.ptr());
      result.kind = Argument::Slice;
      result.count = 3;
      result.items = arguments(nb::make_tuple(borrow(slice->start), borrow(slice->stop), borrow(slice->step)));
    } else {
      result.object = value.ptr();
    }
    return result;
  }

  static PyObject* example_of(PyTypeObject* number) {
    static PyObject* const integer = PyLong_FromLong(2);
    static PyObject* const real = PyFloat_FromDouble(2.5);
    if (!number) return nullptr;
    return number == &PyLong_Type ? integer : number == &PyFloat_Type ? real : Py_True;
  }

  Arena& arena_;
  std::map<PyObject*, graph::Node*> nodes_;
};

nb::object sizes(const std::vector<int64_t>& values) {
  nb::list list;
  for (int64_t value : values) list.append(value);
  return nb::tuple(list);
}

nb::dict describe(const meta::Record& record) {
  nb::dict d;
  d["type"] = borrow(reinterpret_cast<PyObject*>(record.type));
  d["dtype"] = borrow(meta::dtype_object(record));
  d["device"] = borrow(meta::device_object(record));
  d["layout"] = borrow(meta::layout_object(record));
  d["shape"] = sizes(record.sizes);
  d["stride"] = sizes(record.strides);
  d["offset"] = record.storage_offset;
  d["requires_grad"] = record.requires_grad;
  d["is_leaf"] = record.is_leaf;
  d["is_inference"] = record.is_inference;
  d["is_conj"] = record.is_conj;
  d["is_neg"] = record.is_neg;
  return d;
}

nb::dict describe(const meta::Result& result) {
  static constexpr const char* kKinds[] = {"tensor", "constant", "number", "sequence"};
  nb::dict d;
  d["kind"] = kKinds[result.kind];
  if (result.record) d["record"] = describe(*result.record);
  if (result.object) d["object"] = borrow(result.object.get());
  d["same_as"] = result.same_as;
  d["view_of"] = result.view_of;
  nb::list items;
  for (const meta::Result& item : result.items) items.append(describe(item));
  d["items"] = items;
  return d;
}

nb::dict describe(const meta::Outcome& outcome) {
  nb::dict d;
  d["result"] = describe(outcome.result);
  nb::dict mutations;
  for (const meta::Mutation& mutation : outcome.mutations)
    mutations[nb::int_(mutation.leaf)] = describe(*mutation.record);
  d["mutations"] = mutations;
  d["random"] = outcome.random;
  d["data_dependent"] = outcome.data_dependent;
  d["may_raise"] = outcome.may_raise;
  d["error"] = outcome.error;
  d["message"] = outcome.message;
  return d;
}

nb::dict infer(nb::object target, nb::args args, nb::kwargs kwargs) {
  Arena arena;
  meta::Call call = Caller(arena).call(target, args, kwargs);
  return guarded([&] { return describe(meta::infer(call)); });
}

/// Of each number of the call, whether the Outcome depends on its value.
std::vector<bool> depends_on_numbers(nb::object target, nb::args args, nb::kwargs kwargs) {
  Arena arena;
  meta::Call call = Caller(arena).call(target, args, kwargs);
  std::vector<bool> result;
  meta::each_number(call, [&](const Argument&, bool depends) { result.push_back(depends); });
  return result;
}

double infer_nanoseconds(int repeats, nb::object target, nb::args args, nb::kwargs kwargs) {
  Arena arena;
  meta::Call call = Caller(arena).call(target, args, kwargs);
  return guarded([&] {
    meta::infer(call);
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) meta::infer(call);
    std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    return taken.count() / repeats;
  });
}

nb::tuple infer_statistics() {
  meta::InferStatistics s = meta::infer_statistics();
  return nb::make_tuple(s.hits, s.misses, s.miss_seconds);
}

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
  nb::class_<Ref>(m, "Ref");
  nb::class_<RunTimeNumber>(m, "RunTimeNumber")
      .def(
          "__init__",
          [](RunTimeNumber* self, nb::object example, double bound) {
            new (self) RunTimeNumber{std::move(example), bound};
          },
          "example"_a, "bound"_a = HUGE_VAL);
  m.def("depends_on_numbers", depends_on_numbers);
  m.def("infer", infer);
  m.def("infer_nanoseconds", infer_nanoseconds);
  m.def("infer_statistics", infer_statistics);
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
