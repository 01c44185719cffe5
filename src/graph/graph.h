// The captured graph of one segment, and the bodies of higher-order operators in it: a tree of graphs.
//
//   Graph* body = graph.make_body("cond_true");
//   Node* inside = body->here(node);       // the body's input for a value of a graph around it
//   Node* argument = graph.install(body);  // named cond_true_0
#pragma once
#include <Python.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "base/ref.h"
#include "meta/argument.h"
#include "source/source.h"

namespace gramme::graph {

/// Where in the user's program a node was made, with the calls around it; nodes share these.
struct Position {
  PyCodeObject* code;
  int unit;                // code unit
  const Position* caller;  // null for the root frame
};

/// A call of a torch.nn.Module, with the calls around it; nodes share these.
struct ModuleCall {
  uintptr_t identity;  // its address, only for comparison
  PyTypeObject* type;  // alive as long as the capture
  const source::Source* path;
  uint32_t earlier;          // calls by the same path before this one
  const ModuleCall* caller;  // null outside any other
};

class Graph;

struct Node {
  enum Kind : uint8_t { Placeholder, Body, Attribute, CallFunction, CallMethod };
  Kind kind;
  bool output = false;  // its value leaves the graph
  bool effect = false;  // must stay even if unused: in-place ops, grad mode, random, may raise
  bool hinted = false;
  uint16_t operators = 0;                  // how many the call dispatches
  uint32_t id = 0;                         // in program order, placeholders too; stays when other nodes are dropped
  uint32_t uses = 0;                       // as arguments of calls
  meta::Call call;                         // CallFunction, CallMethod
  const source::Source* source = nullptr;  // Placeholder
  const meta::Record* record = nullptr;    // if the result is a tensor
  PyTypeObject* number_type = nullptr;     // if the result is a Python number: int, float, bool
  shape::Expr symbol = nullptr;            // Placeholder: if it is a size, stride, offset or int that varies
  const Position* position = nullptr;
  const ModuleCall* module = nullptr;  // innermost module call around it
  PyObject* custom = nullptr;          // a dict: the annotations of torch.fx.traceback.annotate
  Graph* graph = nullptr;              // the graph that contains it
  Graph* body = nullptr;               // Body
  PyObject* object = nullptr;          // Attribute: an object of the program, which nodes name by `label`
  Node* outer = nullptr;               // Placeholder of a body: the outer node; null if the operator passes it
  const char* label = nullptr;         // name of an Attribute, or of a body's Placeholder without `outer`
};

/// True if the call sets the grad mode.
bool sets_grad_mode(const Node* node);

class Graph {
 public:
  explicit Graph(Arena& arena) : arena_(arena) {}
  Graph(const Graph&) = delete;

  // ---- bodies
  /// A graph inside this one, for a higher-order operator. The prefix starts its name.
  Graph* make_body(const char* prefix);
  bool has_bodies() const { return !bodies_.empty(); }
  Graph* around() const { return around_; }  // null for the outermost graph
  /// True if `other` is this graph or one around it.
  bool is_in(const Graph* other) const;
  /// This graph's node for a value of a graph around it: made an input of this graph and of each body in between.
  Node* here(Node* node);
  /// An input of a body that the operator passes, with no value outside.
  Node* input(const meta::Record* record, const char* label, const Position* position);
  /// The node by which this graph's calls refer to the body. Names the body.
  Node* install(Graph* body, const Position* position);
  const std::string& name() const { return name_; }  // bodies only
  /// The node by which calls refer to an object of the program, which must live as long as the graph.
  Node* attribute(const std::string& name, PyObject* object, const Position* position);
  /// Merges `shared` bodies that do the same, renames them, and sets each one's name as the second argument of its
  /// calls. Called for the outermost graph once it is complete.
  void share_bodies();
  /// For a body: sets what it returns, a tree over its nodes and constants.
  void returns(const meta::Argument& result);
  const meta::Argument& result() const { return result_; }
  /// The only call that runs the body; null if there is none, or several.
  Node* caller = nullptr;
  /// The operator only runs the body, once, at the place of the call.
  bool in_place = false;
  /// Gives two bodies of one operator in this graph the same list of inputs from outside: those that both take, then
  /// only the left one, then only the right one, each sorted by name in this graph.
  void merge_inputs(Graph& left, const char* left_suffix, Graph& right, const char* right_suffix);
  /// For a body: an operation in it writes to a tensor from outside.
  bool writes_around = false;
  /// For a body: its operator takes its name, and share_bodies() merges equal ones.
  bool shared = false;
  /// For a body: entries for `meta` of its graph module.
  std::vector<std::pair<const char*, PyObject*>> metadata;
  /// Adds a result and returns its index; -1 if the body does not return a tuple.
  int also_return(Node* node);

  Node* placeholder(const source::Source* source, const meta::Record* record, const Position* position = nullptr);
  /// The call's arrays must live as long as the graph (in its arena).
  Node* call(const meta::Call& call, const Position* position);
  /// Uses up the name that this call would get, without a node for it.
  void skip_name(const meta::Call& call);
  /// The program stored the value in a local variable or cell: the first such name becomes the node's (names.h).
  /// Placeholders keep theirs.
  void hint(Node* node, PyObject* variable);
  /// Names the node after all nodes made so far.
  void name_last(const Node* node);
  /// Nodes made from now on belong to a call of the module, until leave() gets the returned value.
  const ModuleCall* enter(PyObject* module, const source::Source* path);
  void leave(const ModuleCall* before) { module_ = before; }
  const ModuleCall* module() const { return module_; }
  /// "custom" in `meta` of nodes made from now on: a dict that lives as long as the graph.
  PyObject* custom = nullptr;
  /// The values the graph returns, in order; nodes only.
  std::vector<Node*> outputs;

  const std::vector<Node*>& placeholders() const { return placeholders_; }
  const std::vector<Node*>& nodes() const { return nodes_; }  // calls, in program order
  size_t length() const { return nodes_.size(); }
  /// Every node ever made (dropped ones too) and every hint, in order: names depend on it.
  struct Event {
    Node* node;
    PyObject* hint;                // null: the node was made
    const char* suffix = nullptr;  // not null: merge_inputs() made the input again
  };
  const std::vector<Event>& events() const { return events_; }
  bool empty() const { return nodes_.empty(); }

  /// Reorders the placeholders.
  void order(std::vector<Node*> placeholders) { placeholders_ = std::move(placeholders); }
  /// Drops unused calls without effect, in bodies too, and unused placeholders.
  void remove_dead();
  /// Drops pairs of adjacent torch._C._set_grad_enabled calls where the second undoes the first.
  void remove_redundant_grad_modes(bool grad_at_start);
  /// One line for each node: "add = operator.add(l_x_, 1)  # f32[2]". Golden tests show this text.
  std::string print() const;
  /// Throws InternalError if a node uses a later node, a count is wrong, or an argument is not allowed in a graph.
  void verify() const;

 private:
  Node* add(Node::Kind kind, const Position* position);
  Node* lift(Node* outer);
  void take_inputs(const std::vector<std::pair<Node*, const char*>>& outers);
  Graph& root() { return around_ ? around_->root() : *this; }
  void give_name(Graph* body);
  void share_bodies_of(Graph& graph, std::vector<Graph*>& known);
  friend class Copier;  // in kept.cpp, which must copy every member

  Arena& arena_;
  Graph* around_ = nullptr;
  const char* prefix_ = "";
  std::string name_;
  meta::Argument result_;
  std::vector<std::unique_ptr<Graph>> bodies_;
  std::unordered_map<const Node*, Node*> lifted_;
  std::map<std::string, int> named_;  // outermost graph only: counts of names, by prefix of bodies and by attribute
  std::vector<Owned<>> kept_;         // outermost graph only: names of bodies
  std::vector<Node*> placeholders_, nodes_;
  std::vector<Event> events_;
  uint32_t next_id_ = 0;
  const ModuleCall* module_ = nullptr;
  std::unordered_map<const source::Source*, uint32_t> calls_by_path_;
};

/// PyTorch Dynamo's spelling: L['x'] -> "L_x_", L['self']._modules['l'] -> "L_self_modules_l_".
std::string placeholder_name(std::string_view source);

}  // namespace gramme::graph
