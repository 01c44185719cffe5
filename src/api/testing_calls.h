// Lets tests build calls of a graph from Python objects.
#pragma once
#include <nanobind/nanobind.h>

#include <cstring>
#include <map>
#include <string>

#include "aten/classes.h"
#include "aten/spec.h"
#include "base/error.h"
#include "graph/graph.h"
#include "meta/infer.h"

namespace gramme::api {

/// A node, as a Python object for tests.
struct Ref {
  graph::Node* node;
};

/// A Python number that the call treats as known only at run time.
struct RunTimeNumber {
  nanobind::object example;
  double bound;
};

/// A tensor some of whose sizes are symbols.
struct SymbolicTensor {
  nanobind::object tensor;
  const meta::Record* record;
};

/// An int that is a symbol.
struct SymbolicNumber {
  nanobind::object example;
  shape::Expr expr;
};

inline nanobind::object borrow(PyObject* object) { return nanobind::borrow(object); }

/// Runs C++ that may throw with a Python error set.
template <class Body>
auto guarded(Body&& body) {
  try {
    return body();
  } catch (const PythonError&) {
    throw nanobind::python_error();
  }
}

/// Calls made of Python objects: tensors become nodes, one for each object.
class Caller {
 public:
  explicit Caller(Arena& arena) : arena_(arena) {}

  meta::Call call(nanobind::handle target, nanobind::args args, nanobind::kwargs kwargs) {
    meta::Call call;
    call.kind = nanobind::isinstance<nanobind::str>(target) ? meta::Call::Method : meta::Call::Function;
    call.target = target.ptr();
    if (call.kind == meta::Call::Method)
      call.target = PyUnicode_InternFromString(nanobind::cast<std::string>(target).c_str());
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
  meta::Argument* array(size_t count) {
    auto* items = static_cast<meta::Argument*>(arena_.bytes_for(sizeof(meta::Argument) * (count + 1)));
    std::fill_n(items, count, meta::Argument());
    return items;
  }

  template <class Sequence>
  const meta::Argument* arguments(const Sequence& values) {
    auto* items = array(values.size());
    size_t i = 0;
    for (nanobind::handle value : values) items[i++] = argument(value);
    return items;
  }

  meta::Argument argument(nanobind::handle value) {
    meta::Argument result;
    if (nanobind::isinstance<Ref>(value)) {
      result.node = nanobind::cast<Ref>(value).node;
      result.kind = result.node->number_type ? meta::Argument::Number : meta::Argument::Tensor;
      result.record = result.node->record;
      result.object = example_of(result.node->number_type);
    } else if (nanobind::isinstance<RunTimeNumber>(value)) {
      result.kind = meta::Argument::Number;
      result.object = nanobind::cast<RunTimeNumber&>(value).example.ptr();
      result.range = meta::Interval::around_zero(nanobind::cast<RunTimeNumber&>(value).bound);
      result.node = arena_.make<graph::Node>();
    } else if (nanobind::isinstance<SymbolicNumber>(value)) {
      result.kind = meta::Argument::Number;
      result.object = nanobind::cast<SymbolicNumber&>(value).example.ptr();
      result.expr = nanobind::cast<SymbolicNumber&>(value).expr;
      result.node = arena_.make<graph::Node>();
    } else if (nanobind::isinstance<SymbolicTensor>(value)) {
      const auto& symbolic = nanobind::cast<SymbolicTensor&>(value);
      result = tensor(symbolic.tensor.ptr(), symbolic.record);
    } else if (aten::is_tensor(value.ptr())) {
      result = tensor(value.ptr(), meta::record_of(value.ptr()));
    } else if (PyTuple_Check(value.ptr()) && std::strcmp(Py_TYPE(value.ptr())->tp_name, "torch.Size") != 0) {
      result.kind = meta::Argument::Tuple;
      if (!PyTuple_CheckExact(value.ptr())) result.object = reinterpret_cast<PyObject*>(Py_TYPE(value.ptr()));
      result.count = static_cast<uint32_t>(nanobind::len(value));
      result.items = arguments(nanobind::borrow<nanobind::tuple>(value));
    } else if (PyList_Check(value.ptr())) {
      result.kind = meta::Argument::List;
      result.count = static_cast<uint32_t>(nanobind::len(value));
      result.items = arguments(nanobind::borrow<nanobind::list>(value));
    } else if (PySlice_Check(value.ptr())) {
      auto* slice = reinterpret_cast<PySliceObject*>(value.ptr());
      result.kind = meta::Argument::Slice;
      result.count = 3;
      result.items = arguments(nanobind::make_tuple(borrow(slice->start), borrow(slice->stop), borrow(slice->step)));
    } else {
      result.object = value.ptr();
    }
    return result;
  }

  meta::Argument tensor(PyObject* object, const meta::Record* record) {
    meta::Argument result;
    result.kind = meta::Argument::Tensor;
    graph::Node*& node = nodes_[object];
    if (!node) node = arena_.make<graph::Node>();
    result.node = node;
    result.record = record;
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

}  // namespace gramme::api
