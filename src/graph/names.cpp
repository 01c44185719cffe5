// Replays the events of a graph with torch.fx's naming rules: a namespace, and names from targets, sources and hints.
#include "graph/names.h"

#include <algorithm>

#include "base/imported.h"
#include "base/once.h"
#include "base/sha256.h"
#include "source/printer.h"

namespace gramme::graph {
namespace {

bool lower(char c) { return c >= 'a' && c <= 'z'; }
bool upper(char c) { return c >= 'A' && c <= 'Z'; }
bool digit(char c) { return c >= '0' && c <= '9'; }
bool word(char c) { return lower(c) || upper(c) || digit(c) || c == '_'; }

void add_strings(PyObject* iterable, std::unordered_set<std::string>& names) {
  Owned<> iterator = take(PyObject_GetIter(iterable));
  while (Owned<> item = Owned<>::steal(PyIter_Next(iterator.get()))) {
    const char* text = PyUnicode_AsUTF8(item.get());
    if (!text) throw PythonError();
    names.insert(text);
  }
  if (PyErr_Occurred()) throw PythonError();
}

/// Keywords, builtins, and the globals of code that torch.fx generates.
const std::unordered_set<std::string>& reserved() {
  const auto* const names = once([] {
    auto* result =
        new std::unordered_set<std::string>{"inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree"};
    Owned<> keyword = take(import_module("keyword"));
    add_strings(take(PyObject_GetAttrString(keyword.get(), "kwlist")).get(), *result);
    Owned<> builtins = take(import_module("builtins"));
    add_strings(PyModule_GetDict(builtins.get()), *result);
    return result;
  });
  return *names;
}

/// A legal identifier: runs of other characters become one underscore.
std::string cleaned(std::string_view candidate) {
  std::string result;
  for (size_t i = 0; i < candidate.size(); ++i) {
    if (word(candidate[i]))
      result += candidate[i];
    else if (i == 0 || word(candidate[i - 1]))
      result += '_';
  }
  if (result.empty()) return "_unnamed";
  return digit(result[0]) ? "_" + result : result;
}

/// The length of a name without a numeric suffix: 4 for "name_12".
size_t base_length(const std::string& name) {
  size_t end = name.size();
  while (end > 0 && digit(name[end - 1])) --end;
  bool numbered = end < name.size() && end >= 2 && name[end - 1] == '_' && name.size() - end <= 18;
  return numbered ? end - 1 : name.size();
}

/// fooBar -> foo_bar, as torch.fx spells targets.
std::string snake_case(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (upper(text[i]) && i > 0 && lower(text[i - 1])) result += '_';
    result += upper(text[i]) ? static_cast<char>(text[i] - 'A' + 'a') : text[i];
  }
  return result;
}

std::string_view without_dunder(std::string_view name) {
  bool magic = name.size() >= 4 && name.starts_with("__") && name.ends_with("__");
  return magic ? name.substr(2, name.size() - 4) : name;
}

std::string target_name(const Node& node) {
  if (node.kind == Node::CallMethod) return snake_case(without_dunder(PyUnicode_AsUTF8(node.call.target)));
  Owned<> name = Owned<>::steal(PyObject_GetAttrString(node.call.target, "__name__"));
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (!text) PyErr_Clear();  // lone surrogates
  return snake_case(text ? text : Py_TYPE(node.call.target)->tp_name);
}

/// Numbers of symbols for sizes, strides and offsets, computed from their sources' names as ShapeEnv does.
class SymbolNumbers {
 public:
  int number(const std::string& source) {
    int number = hash(source) % 100;
    while (!used_.insert(number).second) ++number;
    return number;
  }

 private:
  /// The text's SHA-256 modulo 100.
  static int hash(const std::string& text) {
    int rest = 0;
    for (const char byte : sha256(text)) rest = (rest * 256 + static_cast<unsigned char>(byte)) % 100;
    return rest;
  }

  std::unordered_set<int> used_;
};

/// The names of a graph's nodes while its events are replayed.
class Naming {
 public:
  explicit Naming(const Graph& graph, const Names* around) : events_(graph.events()), around_(around) {
    size_t count = 0;
    for (const auto& event : events_) {
      count = std::max<size_t>(count, event.node->id + 1);
      if (!event.hint && !event.suffix && event.node->kind == Node::Placeholder) last_placeholder_ = event.node;
    }
    names_.node.resize(count);
    names_.first.resize(count);
    names_.target.resize(count);
  }

  Names run() {
    for (const auto& [node, hint, suffix] : events_) {
      if (suffix)
        make_again(*node, suffix);
      else
        hint ? rename(*node, hint) : make(*node);
      if (node == last_placeholder_) last_placeholder_ = nullptr;
    }
    return std::move(names_);
  }

 private:
  void make(const Node& node) {
    std::string& name = names_.node[node.id];
    if (node.kind == Node::Placeholder && (node.outer || node.label)) {
      std::string target = node.label ? std::string(node.label) : unused(around_->outside(*node.outer));
      name = names_.space.create(target);
      if (node.label) target = name;  // torch.fx passes arguments by their targets
      taken_.insert(target);
      names_.target[node.id] = std::move(target);
    } else if (node.kind == Node::Placeholder) {
      const std::string& source = print_(node.source);
      const bool is_size = node.symbol && source::is_number(node.source->kind);
      const int number = node.symbol ? symbols_.number(source) : 0;
      std::string target = unused(is_size ? "s" + std::to_string(number) : placeholder_name(source));
      name = names_.space.create(snake_case(without_dunder(target)));
      taken_.insert(target);
      names_.target[node.id] = std::move(target);
    } else {
      name = names_.space.create(candidate(node));
    }
    if (last_placeholder_) taken_.insert(name);
  }

  void make_again(const Node& node, const char* suffix) {
    std::string& name = names_.node[node.id];
    if (!name.empty()) names_.unmerged[node.id] = std::move(name);
    std::string target = around_->outside(*node.outer) + suffix;
    name = names_.space.create(target);
    names_.target[node.id] = std::move(target);
  }

  void rename(const Node& node, PyObject* hint) {
    const char* text = PyUnicode_AsUTF8(hint);
    if (!text) return PyErr_Clear();
    std::string& name = names_.node[node.id];
    if (name == text) return;
    names_.first[node.id] = std::move(name);
    name = names_.space.create(text);
  }

  /// A placeholder's target must not be the first name of any node.
  std::string unused(std::string prefix) {
    if (!taken_.count(prefix)) return prefix;
    for (int i = 0;; ++i) {
      std::string result = prefix + "_" + std::to_string(i);
      if (!taken_.count(result)) return result;
    }
  }

  const std::string& candidate(const Node& node) {
    if (node.kind == Node::Body) return node.body->name();
    if (node.kind == Node::Attribute) return candidates_[node.object] = node.label;
    auto [entry, added] = candidates_.try_emplace(node.call.target);
    if (added) entry->second = target_name(node);
    return entry->second;
  }

  const std::vector<Graph::Event>& events_;
  const Names* around_;
  source::Printer print_;
  SymbolNumbers symbols_;
  Names names_;
  const Node* last_placeholder_ = nullptr;  // null once it is named: taken_ is not needed after that
  std::unordered_set<std::string> taken_;
  std::unordered_map<PyObject*, std::string> candidates_;
};

}  // namespace

std::string Namespace::create(std::string_view wanted) {
  bool legal = !wanted.empty() && !digit(wanted[0]) && std::all_of(wanted.begin(), wanted.end(), word);
  std::string candidate = legal ? std::string(wanted) : cleaned(wanted);
  size_t length = base_length(candidate);
  std::string base = candidate.substr(0, length);
  int64_t& count = counts_[base];
  int64_t number = 0;
  if (length == candidate.size() || used(candidate)) {
    number = count;
    if (reserved().count(candidate)) candidate = base + "_" + std::to_string(++number);
  } else {
    number = std::stoll(candidate.substr(length + 1));
  }
  while (!used_.insert(candidate).second) candidate = base + "_" + std::to_string(++number);
  count = number;
  return candidate;
}

Names assign_names(const Graph& graph, const Names* around) { return Naming(graph, around).run(); }

Names names_so_far(const Graph& graph) {
  if (!graph.around()) return assign_names(graph);
  const Names around = names_so_far(*graph.around());
  return assign_names(graph, &around);
}

Names names_around(const Graph& body, const Graph& graph, const Names& names) {
  const Graph& around = *body.around();
  if (&around == &graph) return names;
  const Names outer = names_around(around, graph, names);
  return assign_names(around, &outer);
}

std::string placeholder_name(std::string_view source) {
  std::string result;
  for (char c : source) {
    bool kept = lower(c) || upper(c) || digit(c);
    if (kept)
      result += c;
    else if (result.empty() || result.back() != '_')
      result += '_';
  }
  return result;
}

}  // namespace gramme::graph
