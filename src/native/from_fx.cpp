// Walks the nodes of a torch.fx graph and converts arguments, attributes and submodule calls.
#include "native/from_fx.h"

#include <string_view>
#include <unordered_map>

#include "base/imported.h"
#include "native/executor.h"

namespace gramme::native {
namespace {

Owned<> attribute(PyObject* object, const char* name) { return take(PyObject_GetAttrString(object, name)); }

std::string text(PyObject* object) {
  const char* found = PyUnicode_AsUTF8(take(PyObject_Str(object)).get());
  if (!found) throw PythonError();
  return found;
}

/// The last line with a file name in torch.fx's record of the user's stack.
std::string last_line(PyObject* node) {
  Owned<> trace = attribute(node, "stack_trace");
  if (!PyUnicode_Check(trace.get())) return {};
  const std::string all = text(trace.get());
  const size_t at = all.rfind("File \"");
  if (at == std::string::npos) return {};
  return all.substr(at, all.find('\n', at) - at);
}

class Conversion {
 public:
  explicit Conversion(PyObject* module) : module_(share(module)) { node_type_ = imported("torch.fx", "Node"); }

  Program run() {
    Owned<> nodes = take(PySequence_List(attribute(attribute(module_.get(), "graph").get(), "nodes").get()));
    add_inputs(nodes.get());
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(nodes.get()); ++i) add(PyList_GET_ITEM(nodes.get(), i));
    program_.find_last_uses();
    return std::move(program_);
  }

 private:
  void add_inputs(PyObject* nodes) {
    for (const char* kind : {"placeholder", "get_attr"}) {
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(nodes); ++i) {
        PyObject* node = PyList_GET_ITEM(nodes, i);
        if (text(attribute(node, "op").get()) != kind) continue;
        values_.emplace(node, program_.inputs++);
        if (kind[0] == 'g') program_.attributes.push_back(attribute(node, "target"));
      }
    }
    add_modules(nodes);
    if (!program_.attributes.empty()) program_.module = module_;
  }

  /// Adds the submodules that are called; like attributes, they are read at each call.
  void add_modules(PyObject* nodes) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(nodes); ++i) {
      PyObject* node = PyList_GET_ITEM(nodes, i);
      if (text(attribute(node, "op").get()) != "call_module") continue;
      Owned<> name = attribute(node, "target");
      if (!modules_.emplace(text(name.get()), program_.inputs).second) continue;
      ++program_.inputs;
      program_.attributes.push_back(std::move(name));
    }
  }

  static Operand value(ValueId id) {
    Operand operand;
    operand.kind = Operand::Value;
    operand.value = id;
    return operand;
  }

  void add(PyObject* node) {
    const std::string op = text(attribute(node, "op").get());
    if (op == "placeholder" || op == "get_attr") return;
    Owned<> target = attribute(node, "target"), arguments = attribute(node, "args");
    if (op == "output") {
      program_.output = operand(PyTuple_GET_ITEM(arguments.get(), 0));
      return;
    }
    Step step;
    step.name = text(attribute(node, "name").get());
    step.where = last_line(node);
    step.target = target;
    if (op == "call_method") {
      step.kind = Step::Method;
    } else if (op == "call_module") {
      step.target = imported("operator", "call");
      step.arguments.push_back(value(modules_.at(text(target.get()))));
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments.get()); ++i)
      step.arguments.push_back(operand(PyTuple_GET_ITEM(arguments.get(), i)));
    add_keywords(step, attribute(node, "kwargs").get());
    program_.steps.push_back(std::move(step));
    values_.emplace(node, program_.result(program_.steps.size() - 1));
  }

  void add_keywords(Step& step, PyObject* keywords) {
    PyObject *name, *value;
    for (Py_ssize_t at = 0; PyDict_Next(keywords, &at, &name, &value);)
      step.keywords.emplace_back(share(name), operand(value));
  }

  Operand operand(PyObject* object) {
    if (PyObject_IsInstance(object, node_type_.get()) == 1) return value(values_.at(object));
    Operand result;
    if (PyTuple_Check(object)) {
      result.kind = Operand::Tuple;
      if (!PyTuple_CheckExact(object)) result.object = share(reinterpret_cast<PyObject*>(Py_TYPE(object)));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
        result.items.push_back(operand(PyTuple_GET_ITEM(object, i)));
    } else if (PyList_Check(object)) {
      result.kind = Operand::List;
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i)
        result.items.push_back(operand(PyList_GET_ITEM(object, i)));
    } else if (PyDict_Check(object)) {
      result.kind = Operand::Dict;
      PyObject *key, *value;
      for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value);) {
        result.items.push_back(operand(key));
        result.items.push_back(operand(value));
      }
    } else if (PySlice_Check(object)) {
      auto* slice = reinterpret_cast<PySliceObject*>(object);
      result.kind = Operand::Slice;
      for (PyObject* part : {slice->start, slice->stop, slice->step}) result.items.push_back(operand(part));
    } else {
      result.object = share(object);
      if (is_executor(object)) result.graph = call_graph;
    }
    return result;
  }

  Owned<> module_, node_type_;
  std::unordered_map<PyObject*, ValueId> values_;
  std::unordered_map<std::string, ValueId> modules_;
  Program program_;
};

}  // namespace

Program from_fx(PyObject* graph_module) { return Conversion(graph_module).run(); }

}  // namespace gramme::native
