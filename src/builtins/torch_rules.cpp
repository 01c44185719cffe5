// The classifier: decides by rules for objects, then by marks on the function, then by its file.
#include "builtins/torch_rules.h"

#include <fstream>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/imported.h"
#include "base/once.h"
#include "base/process.h"
#include "base/text.h"
#include "base/type_dict.h"
#include "builtins/file_rules.h"
#include "cpython/objects.h"
#include "meta/origin.h"
#include "torch/names.h"
#include "torch_version.h"

namespace gramme::builtins {

using protocol::Treatment;

namespace {

enum class Rule : uint8_t { Graph, Inline, Run, Alone, Break };

/// Rules by object. Rules for modules not yet imported are resolved when sys.modules has grown.
class ObjectRules {
 public:
  void add(Rule rule, const std::string& name) {
    size_t colon = name.find(':');
    std::string module = name.substr(0, colon);
    if (pending_.empty() || pending_.back().module != module) pending_.push_back({module, {}});
    pending_.back().names.emplace_back(name.substr(colon + 1), rule);
  }
  /// The rule, or null.
  const Rule* find(PyObject* callable) {
    resolve_new_modules();
    auto found = rules_.find(callable);
    return found == rules_.end() ? nullptr : &found->second;
  }

 private:
  struct Module {
    std::string module;
    std::vector<std::pair<std::string, Rule>> names;
  };

  void resolve_new_modules() {
    Py_ssize_t now = PyDict_GET_SIZE(PyImport_GetModuleDict());
    if (now == modules_seen_) return;
    modules_seen_ = now;
    std::erase_if(pending_, [this](const Module& module) {
      PyObject* object = known_module(module.module.c_str());
      if (object && is_being_imported(object)) {
        modules_seen_ = -1;  // finishing an import does not change the number of modules
        return false;
      }
      if (object && PyModule_Check(object))
        for (const auto& [name, rule] : module.names) resolve(object, name, rule);
      return object != nullptr;
    });
  }

  /// Reads the module's dict only, since modules may create attributes on demand.
  void resolve(PyObject* module, const std::string& name, Rule rule) {
    size_t dot = name.find('.');
    Owned<> object = share(PyDict_GetItemString(PyModule_GetDict(module), name.substr(0, dot).c_str()));
    while (object && dot != std::string::npos) {
      const size_t from = dot + 1;
      dot = name.find('.', from);
      object = Owned<>::steal(PyObject_GetAttrString(object.get(), name.substr(from, dot - from).c_str()));
    }
    PyErr_Clear();
    if (!object) return;
    insert(object.get(), rule);
    if (strcmp(Py_TYPE(object.get())->tp_name, "functools._lru_cache_wrapper") != 0) return;
    if (Owned<> wrapped = Owned<>::steal(PyObject_GetAttrString(object.get(), "__wrapped__")))
      insert(wrapped.get(), rule);
    PyErr_Clear();
  }
  void insert(PyObject* callable, Rule rule) {
    if (rules_.insert_or_assign(callable, rule).second) share(callable).release();  // keeps the key alive
  }

  std::vector<Module> pending_;
  std::unordered_map<PyObject*, Rule> rules_;
  Py_ssize_t modules_seen_ = -1;
};

/// Functions registered with allow_in_graph and the like: sets of ids that torch._dynamo keeps once it is imported.
class Registered {
 public:
  explicit Registered(of_torch::Name name) : name_(name) {}
  bool contains(PyObject* callable) {
    if (!addresses_ && !look()) return false;
    if (PySet_GET_SIZE(addresses_.get()) == 0) return false;
    return check(PySet_Contains(addresses_.get(), take(PyLong_FromVoidPtr(callable)).get())) != 0;
  }
  Py_ssize_t size() { return addresses_ || look() ? PySet_GET_SIZE(addresses_.get()) : 0; }

 private:
  bool look() {
    PyObject* modules = PyImport_GetModuleDict();
    if (!owner_) {
      if (PyDict_GET_SIZE(modules) == modules_seen_) return false;
      PyObject* module = known_module(of_torch::place(name_).where);
      if (!module || !is_being_imported(module)) modules_seen_ = PyDict_GET_SIZE(modules);
      owner_ = share(of_torch::if_loaded(name_));
    }
    static PyObject* const ids = intern("function_ids");
    Owned<> addresses = Owned<>::steal(owner_ ? PyObject_GetAttr(owner_.get(), ids) : nullptr);
    PyErr_Clear();
    if (addresses && PySet_Check(addresses.get())) addresses_ = addresses;
    return static_cast<bool>(addresses_);
  }
  of_torch::Name name_;
  Owned<> owner_, addresses_;
  Py_ssize_t modules_seen_ = -1;
};

/// Functions for which the program registered a substitute. torch._dynamo registers many of its own; the table is read
/// again when it has grown.
class Substituted {
 public:
  bool contains(PyObject* callable) {
    if (const Py_ssize_t now = all_.size(); now != seen_) {
      seen_ = now;
      look();
    }
    return !functions_.empty() && functions_.contains(callable);
  }

 private:
  void look() {
    held_ = take(PyObject_CallNoArgs(imported("gramme._policy", "substituted").get()));
    functions_.clear();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(held_.get()); ++i) functions_.insert(PyList_GET_ITEM(held_.get(), i));
  }
  Registered all_{of_torch::PolyfilledFunctionIds};
  Py_ssize_t seen_ = 0;
  Owned<> held_;
  std::unordered_set<PyObject*> functions_;
};

struct Rules {
  ObjectRules objects;
  FileRules files;
  Registered allowed{of_torch::AllowedCallableIds};
  Registered disallowed{of_torch::DisallowedCallableIds};
  Registered nonstrict{of_torch::NonstrictTraceCallableIds};
  Registered leaf{of_torch::LeafFunctionIds};
  Substituted substituted;
  PyObject *tensor = nullptr, *tensor_base = nullptr;  // types
};

/// The lines of this version's table and earlier ones. Each table has only differences; a leading minus removes a line.
std::vector<std::string> lines_in_force() {
  std::string directory = directory_of("gramme");
  if (directory.empty()) GRAMME_BUG("the package gramme is not imported");
  std::vector<std::string> lines;
  for (const char* folder : of_torch::kFolders) {
    std::string path = directory + "_torch/" + folder + "/rules.txt";
    std::ifstream table(path);
    if (!table) GRAMME_BUG("cannot read " + path + "; write it with tools/make_torch_rules.py");
    for (std::string line; std::getline(table, line);) {
      if (line.empty() || line[0] == '#') continue;
      if (line[0] == '-')
        std::erase(lines, line.substr(1));
      else
        lines.push_back(std::move(line));
    }
  }
  return lines;
}

/// Reads the table: some 2,000 rules, 1 ms.
std::unique_ptr<Rules> load() {
  auto rules = std::make_unique<Rules>();
  for (const std::string& line : lines_in_force()) {
    size_t space = line.find(' ');
    std::string kind = line.substr(0, space), name = line.substr(space + 1);
    if (kind == "graph")
      rules->objects.add(Rule::Graph, name);
    else if (kind == "inline")
      rules->objects.add(Rule::Inline, name);
    else if (kind == "run")
      rules->objects.add(Rule::Run, name);
    else if (kind == "alone")
      rules->objects.add(Rule::Alone, name);
    else if (kind == "break")
      rules->objects.add(Rule::Break, name);
    else
      rules->files.add(kind, name);
  }
  rules->files.find_roots();
  rules->tensor = imported("torch", "Tensor").release();
  rules->tensor_base = of_torch::object(of_torch::TensorBase);
  return rules;
}

struct State {
  std::unique_ptr<Rules> rules;  // GIL: made at the first use
};
Lasting<State> state;  // it holds torch's objects for good

/// Another thread, or a finalizer in the middle, may load them, too: the first ones stay.
Rules& rules() {
  if (!state->rules) [[unlikely]]
    if (std::unique_ptr<Rules> loaded = load(); !state->rules) state->rules = std::move(loaded);
  return *state->rules;
}

bool has_mark(PyObject* dict, PyObject* name) {
  PyObject* mark = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  return mark == Py_True;
}

void check_marks(PyObject* callable, PyObject* dict) {
  static PyObject* const disabled = of_torch::attribute(of_torch::TorchdynamoDisable);
  static PyObject* const breaks = intern("__gramme_graph_break__");
  if (!dict || PyDict_GET_SIZE(dict) == 0) return;
  if (has_mark(dict, breaks)) cannot(Reason::GraphBreakCalled);
  if (!has_mark(dict, disabled)) return;
  Owned<> name = take(PyObject_Repr(callable));
  cannot(Reason::CallDisabled, utf8_of(name.get()));
}

Treatment treatment_of(Rule rule, PyObject* callable) {
  switch (rule) {
    case Rule::Graph:
      return Treatment::InGraph;
    case Rule::Inline:
      return Treatment::Inline;
    case Rule::Run:
    case Rule::Alone:
      return Treatment::RunForReal;
    case Rule::Break:
      break;
  }
  Owned<> name = take(PyObject_Repr(callable));
  cannot(Reason::GraphBreakCalled, utf8_of(name.get()));
}

Treatment classify_function(Rules& all, PyObject* callable) {
  auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  static PyObject* const constant_result = of_torch::attribute(of_torch::MarkedConstant);
  static PyObject* const torch_function = intern("__torch_function__");
  check_marks(callable, function->func_dict);
  if (has_mark(function->func_dict, constant_result)) return Treatment::Fold;
  if (all.disallowed.contains(callable) || all.leaf.contains(callable)) return Treatment::RunForReal;
  if (all.substituted.contains(callable)) return Treatment::Substituted;
  if (all.allowed.contains(callable) || all.nonstrict.contains(callable)) return Treatment::InGraph;
  if (const Rule* rule = all.objects.find(callable)) return treatment_of(*rule, callable);
  if (PyUnicode_Compare(function->func_name, torch_function) == 0) return Treatment::Inline;
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  return treatment_of(all.files.runs(code->co_filename) ? Rule::Run : Rule::Inline, callable);
}

/// True for C methods and slots of torch's tensor type.
bool is_tensor_method(const Rules& all, PyObject* callable) {
  if (!Py_IS_TYPE(callable, &PyMethodDescr_Type) && !Py_IS_TYPE(callable, &PyWrapperDescr_Type)) return false;
  auto* owner = reinterpret_cast<PyObject*>(PyDescr_TYPE(callable));
  return owner == all.tensor_base || owner == all.tensor;
}

}  // namespace

namespace {

/// True for functions of torch that torch itself disabled; the program's code that they call back is still captured.
bool is_torch_disabling_itself(const Rules& all, PyFunctionObject* function) {
  static PyObject* const original = of_torch::attribute(of_torch::TorchdynamoOrigCallable);
  PyObject* inner = PyDict_GetItemWithError(function->func_dict, original);
  return inner && PyFunction_Check(inner) &&
         all.files.is_of_torch(cpython::code_of(cpython::as_function(inner))->co_filename);
}

}  // namespace

cpython::FrameRule frame_rule(PyFunctionObject* function) {
  using cpython::FrameRule;
  static PyObject* const disabled = of_torch::attribute(of_torch::TorchdynamoDisable);
  static PyObject* const finalizer = intern("__del__");
  static PyObject* const handler = intern("__torch_function__");
  Rules& all = rules();
  PyCodeObject* code = cpython::code_of(function);
  if (has_mark(function->func_dict, disabled))
    return is_torch_disabling_itself(all, function) ? FrameRule::PassOn : FrameRule::Alone;
  if (PyUnicode_Compare(code->co_name, finalizer) == 0 || all.files.is_tool(code->co_filename)) return FrameRule::Alone;
  auto* callable = reinterpret_cast<PyObject*>(function);
  if (const Rule* rule = all.objects.find(callable); rule && *rule == Rule::Alone) return FrameRule::Alone;
  if (runs_whole(code)) return FrameRule::Alone;
  if (PyUnicode_Compare(code->co_name, handler) == 0) return FrameRule::PassOn;
  if (all.files.is_of_torch(code->co_filename) && !all.files.is_of_models(code)) return FrameRule::PassOn;
  if (protocol::find_model(callable) || protocol::find_function_model(code)) return FrameRule::PassOn;
  return classify_function(all, callable) == Treatment::Inline ? FrameRule::Take : FrameRule::PassOn;
}

Treatment classify(PyObject* callable) {
  Rules& all = rules();
  if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  if (PyFunction_Check(callable)) return classify_function(all, callable);
  if (all.disallowed.contains(callable)) return Treatment::RunForReal;
  if (all.substituted.contains(callable)) return Treatment::Substituted;
  if (all.allowed.contains(callable)) return Treatment::InGraph;
  if (const Rule* rule = all.objects.find(callable)) return treatment_of(*rule, callable);
  if (is_tensor_method(all, callable)) return Treatment::InGraph;
  if (meta::is_operator(callable)) return Treatment::InGraph;
  if (PyType_Check(callable)) check_marks(callable, type_dict(callable));
  return Treatment::Inline;
}

}  // namespace gramme::builtins
