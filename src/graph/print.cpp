// Prints a graph as text, and verifies its invariants.
#include <algorithm>

#include "base/error.h"
#include "bytecode/code.h"
#include "graph/names.h"
#include "graph/place.h"

namespace gramme::graph {
namespace {

using meta::Argument;

std::string text_of(PyObject* object, PyObject* (*convert)(PyObject*)) {
  Owned<> string = Owned<>::steal(convert(object));
  const char* text = string ? PyUnicode_AsUTF8(string.get()) : nullptr;
  std::string result = text ? text : "?";
  PyErr_Clear();
  return result;
}

std::string attribute(PyObject* object, const char* name) {
  Owned<> value = Owned<>::steal(PyObject_GetAttrString(object, name));
  PyErr_Clear();
  return value && PyUnicode_Check(value.get()) ? text_of(value.get(), PyObject_Str) : std::string();
}

/// "operator.add", "torch.relu", "torch.nn.functional.gelu".
std::string callable_name(PyObject* target) {
  std::string name = attribute(target, "__name__");
  if (name.empty()) return text_of(target, PyObject_Repr);
  std::string module = attribute(target, "__module__");
  PyObject* self = PyCFunction_Check(target) ? PyCFunction_GET_SELF(target) : nullptr;
  if (module.empty() && self) module = PyModule_Check(self) ? attribute(self, "__name__") : "torch";
  if (module == "builtins") return name;
  if (module == "_operator") module = "operator";
  return module.empty() ? name : module + "." + name;
}

/// As torch.fx writes dtypes: f32, bf16, i64, b8.
std::string short_dtype(PyObject* dtype) {
  std::string name = text_of(dtype, PyObject_Str);
  name = name.substr(name.rfind('.') + 1);
  static constexpr std::pair<const char*, const char*> kPrefixes[] = {
      {"bfloat", "bf"}, {"float", "f"}, {"complex", "c"}, {"uint", "u"}, {"int", "i"}};
  if (name == "bool") return "b8";
  for (const auto& [prefix, letter] : kPrefixes)
    if (name.starts_with(prefix)) return letter + name.substr(std::string(prefix).size());
  return name;
}

std::string print_sizes(const std::vector<shape::SymInt>& sizes) {
  std::string result = "[";
  for (size_t i = 0; i < sizes.size(); ++i) result += (i ? ", " : "") + shape::print(sizes[i]);
  return result + "]";
}

bool contiguous(const meta::Record& record) {
  std::optional<shape::SymInt> expected = 1;
  for (shape::SymInt size : record.sizes)
    if (size == 0) return true;
  for (size_t i = record.sizes.size(); i-- > 0;) {
    if (record.sizes[i] != 1 && record.strides[i] != expected) return false;
    expected = expected ? product(*expected, record.sizes[i]) : expected;
  }
  return true;
}

std::string print_record(const meta::Record& record) {
  std::string result =
      short_dtype(meta::dtype_object(record)) + (record.opaque ? "[jagged]" : print_sizes(record.sizes));
  if (!record.strides.empty() && !contiguous(record)) result += " strides " + print_sizes(record.strides);
  if (record.device_type != 0) result += " " + text_of(meta::device_object(record), PyObject_Str);
  if (record.requires_grad) result += " grad";
  return result;
}

/// One graph being printed.
class Printer {
 public:
  explicit Printer(const Graph& graph, const Names* around = nullptr, std::string indent = {})
      : graph_(graph), names_(assign_names(graph, around)), indent_(std::move(indent)) {}

  std::string run() {
    std::string result;
    for (const Node* node : graph_.placeholders())
      result += indent_ + name(*node) + source(*node) + remark(*node) + "\n";
    for (const Node* node : graph_.nodes())
      result +=
          node->kind == Node::Body ? body(*node) : indent_ + name(*node) + " = " + made(*node) + remark(*node) + "\n";
    if (graph_.around()) return result + indent_ + "return " + argument(graph_.result()) + "\n";
    result += "return (";
    for (size_t i = 0; i < graph_.outputs.size(); ++i) result += (i ? ", " : "") + name(*graph_.outputs[i]);
    return result + (graph_.outputs.size() == 1 ? ",)\n" : ")\n");
  }

 private:
  const std::string& name(const Node& node) const { return names_.node[node.id]; }

  /// The source of an input of the outermost graph. A body's input shows none: it has the name of its outer node.
  static std::string source(const Node& node) {
    return graph_input(node) ? " = " + node.source->print() : std::string();
  }
  static bool graph_input(const Node& node) { return !node.outer && !node.label; }

  std::string body(const Node& node) const {
    const Names around = names_around(*node.body, graph_, names_);
    return indent_ + name(node) + ":\n" + Printer(*node.body, &around, indent_ + "    ").run();
  }

  std::string made(const Node& node) const {
    return node.kind == Node::Attribute ? std::string("self.") + node.label : call(node.call);
  }

  std::string remark(const Node& node) const {
    if (node.record) return "  # " + print_record(*node.record);
    return node.number_type ? std::string("  # ") + node.number_type->tp_name : std::string();
  }

  std::string call(const meta::Call& call) const {
    bool method = call.kind == meta::Call::Method;
    uint32_t first = method && call.arg_count ? 1 : 0;
    std::string result = first ? argument(call.args[0]) + "." : "";
    result += (method ? text_of(call.target, PyObject_Str) : callable_name(call.target)) + "(";
    std::string arguments = list(call.args + first, call.arg_count - first);
    for (uint32_t i = 0; i < call.keyword_count; ++i) {
      if (!arguments.empty()) arguments += ", ";
      arguments += text_of(call.keyword_names[i], PyObject_Str) + "=" + argument(call.keyword_args[i]);
    }
    return result + arguments + ")";
  }

  std::string list(const Argument* items, uint32_t count) const {
    std::string result;
    for (uint32_t i = 0; i < count; ++i) result += (i ? ", " : "") + argument(items[i]);
    return result;
  }

  std::string argument(const Argument& value) const {
    switch (value.kind) {
      case Argument::Tensor:
      case Argument::Number:
      case Argument::Body:
        return name(*value.node);
      case Argument::Tuple: {
        std::string of = value.object ? attribute(value.object, "__name__") : "";
        return of + "(" + list(value.items, value.count) + (value.count == 1 ? ",)" : ")");
      }
      case Argument::List:
        return "[" + list(value.items, value.count) + "]";
      case Argument::Slice:
        return "slice(" + list(value.items, value.count) + ")";
      case Argument::Dict: {
        std::string result = "{";
        for (uint32_t i = 0; i + 1 < value.count; i += 2)
          result += (i ? ", " : "") + argument(value.items[i]) + ": " + argument(value.items[i + 1]);
        return result + "}";
      }
      case Argument::Constant:
        break;
    }
    bool callable = PyCallable_Check(value.object) && !PyType_Check(value.object);
    return callable ? callable_name(value.object) : text_of(value.object, PyObject_Repr);
  }

  const Graph& graph_;
  Names names_;
  std::string indent_;
};

/// One graph being checked: every node has been seen before it is used.
class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  void run() {
    for (const Node* node : graph_.placeholders()) {
      if (node->graph != &graph_ || (node->outer && node->outer->graph != graph_.around()))
        GRAMME_BUG("an input of another graph");
      see(*node);
    }
    uint32_t last = 0;
    for (const Node* node : graph_.nodes()) {
      if (node->id < last) GRAMME_BUG("nodes are out of order");
      last = node->id;
      if (node->kind == Node::Body)
        node->body->verify();
      else if (node->kind != Node::Attribute)
        check(node->call);
      see(*node);
    }
    if (graph_.around()) check_result(graph_.result());
    for (const Node* node : graph_.outputs)
      if (!seen(node) || !node->output) GRAMME_BUG("an output is not a node of the graph, or not marked as one");
    auto count = [this](const Node* node) {
      if (node->uses != uses_[node->id]) GRAMME_BUG("the uses of a node are miscounted");
    };
    std::for_each(graph_.placeholders().begin(), graph_.placeholders().end(), count);
    std::for_each(graph_.nodes().begin(), graph_.nodes().end(), count);
  }

 private:
  bool seen(const Node* node) const { return node && node->id < seen_.size() && seen_[node->id] == node; }

  void see(const Node& node) {
    if (seen_.size() <= node.id) {
      seen_.resize(node.id + 1);
      uses_.resize(node.id + 1);
    }
    if (seen_[node.id]) GRAMME_BUG("two nodes have one id");
    seen_[node.id] = &node;
  }

  void check(const meta::Call& call) {
    if (!call.target) GRAMME_BUG("a call without a target");
    for (uint32_t i = 0; i < call.arg_count; ++i) check(call.args[i]);
    for (uint32_t i = 0; i < call.keyword_count; ++i) check(call.keyword_args[i]);
  }

  void check_result(const Argument& argument) {
    if (argument.node && (!seen(argument.node) || !argument.node->output))
      GRAMME_BUG("a body returns what is not a node of it, or not marked as returned");
    for (uint32_t i = 0; i < argument.count; ++i) check_result(argument.items[i]);
  }

  void check(const Argument& argument) {
    if (argument.node) {
      if (!seen(argument.node)) GRAMME_BUG("an argument is not an earlier node of the graph");
      ++uses_[argument.node->id];
    } else if (argument.kind == Argument::Constant) {
      check_constant(argument.object);
    }
    for (uint32_t i = 0; i < argument.count; ++i) check(argument.items[i]);
  }

  /// Refuses raw SymInts, of which torch.fx warns, and tensors, which would be baked into the graph.
  void check_constant(PyObject* object) {
    if (!object) GRAMME_BUG("a constant argument without an object");
    std::string type = Py_TYPE(object)->tp_name;
    for (const char* banned : {"SymInt", "SymFloat", "SymBool", "Tensor", "Parameter"})
      if (type == banned) GRAMME_BUG("a " + type + " as a constant of the graph");
  }

  const Graph& graph_;
  std::vector<const Node*> seen_;  // by id
  std::vector<uint32_t> uses_;
};

}  // namespace

std::string place(const Position* position) {
  if (!position) return {};
  PyCodeObject* code = position->code;
  return text_of(code->co_filename, PyObject_Str) + ":" + std::to_string(bytecode::decode(code).line(position->unit));
}

std::string Graph::print() const { return Printer(*this).run(); }
void Graph::verify() const { Verifier(*this).run(); }

}  // namespace gramme::graph
