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

/// Where in the user's program a node was made; a tree shared by all nodes.
struct Position {
  PyCodeObject* code;
  int unit;                // code unit
  const Position* caller;  // null for the root frame
};

/// A torch.nn.Module that the program calls, and the call around it; a tree shared by all nodes.
struct ModuleCall {
  uintptr_t identity;  // tells it from other modules
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
  bool effect = false;  // must stay although unused: in-place ops, grad mode, random, may raise
  bool hinted = false;
  uint16_t operators = 0;                  // that the call asks the dispatcher for
  uint32_t id = 0;                         // in program order, placeholders too; stays when other nodes are dropped
  uint32_t uses = 0;                       // as arguments of calls
  meta::Call call;                         // CallFunction, CallMethod
  const source::Source* source = nullptr;  // Placeholder
  const meta::Record* record = nullptr;    // of a tensor result
  PyTypeObject* number_type = nullptr;     // of a Python number: int, float, bool
  shape::Expr symbol = nullptr;            // Placeholder: of a size, stride, offset or int that varies
  const Position* position = nullptr;
  const ModuleCall* module = nullptr;  // innermost at the time it was made
  PyObject* custom = nullptr;          // a dict: what torch.fx.traceback.annotate said at that time
  Graph* graph = nullptr;              // that it stands in
  Graph* body = nullptr;               // Body
  PyObject* object = nullptr;          // Attribute: of the program, which operators know by `label`
  Node* outer = nullptr;               // Placeholder of a body: of the graph around; null if the operator gives it
  const char* label = nullptr;         // Placeholder of a body that has no outer, Attribute: what it is called
};

/// True if the call sets the grad mode.
bool sets_grad_mode(const Node* node);

class Graph {
 public:
  explicit Graph(Arena& arena) : arena_(arena) {}
  Graph(const Graph&) = delete;

  // ---- bodies
  /// A graph inside this one, for an operator that takes functions. The prefix is part of its name.
  Graph* make_body(const char* prefix);
  bool has_bodies() const { return !bodies_.empty(); }
  Graph* around() const { return around_; }  // null of the outermost
  /// True for this graph and those around it.
  bool is_in(const Graph* other) const;
  /// The node by which this graph has a value of one around it: an input, of each body in between, too.
  Node* here(Node* node);
  /// An input of a body that the operator gives, whatever is outside.
  Node* input(const meta::Record* record, const char* label, const Position* position);
  /// What this graph's operators know the body by. Gives it its name.
  Node* install(Graph* body, const Position* position);
  const std::string& name() const { return name_; }  // of a body
  /// What operators know an object of the program by, which must live as long as the graph.
  Node* attribute(const std::string& name, PyObject* object, const Position* position);
  /// Bodies that are `shared` and do the same become one. Names are given anew, and each operator of such a body is
  /// told its name, as the second argument. Of the outermost graph, once it is done.
  void share_bodies();
  /// For a body: what it returns, a tree over its nodes and constants.
  void returns(const meta::Argument& result);
  const meta::Argument& result() const { return result_; }
  /// The only operator that runs the body; null if there is none, or several.
  Node* caller = nullptr;
  /// Its operator runs it once, where it stands, and does nothing else.
  bool in_place = false;
  /// Two bodies in this graph that one operator runs take one list of inputs from outside from now on: what both take,
  /// what only the left one does, what only the right one does, each in the order of the names here.
  void merge_inputs(Graph& left, const char* left_suffix, Graph& right, const char* right_suffix);
  /// For a body: an operation in it writes to a tensor from outside.
  bool writes_around = false;
  /// For a body: its operator knows it by name, and equal ones are one.
  bool shared = false;
  /// For a body: what backends find in `meta` of its graph module.
  std::vector<std::pair<const char*, PyObject*>> metadata;
  /// One result more; -1 where what the body returns is no tuple.
  int also_return(Node* node);

  Node* placeholder(const source::Source* source, const meta::Record* record, const Position* position = nullptr);
  /// The call's arrays must live as long as the graph (in its arena).
  Node* call(const meta::Call& call, const Position* position);
  /// Takes a name as a call that is not in the graph would.
  void skip_name(const meta::Call& call);
  /// The program stored the value in a local variable or cell: the first such name becomes the node's (names.h).
  /// Placeholders keep theirs.
  void hint(Node* node, PyObject* variable);
  /// The node gets its name after all that were made so far.
  void name_last(const Node* node);
  /// Nodes made from now on belong to a call of the module, until it is left: the answer is what to put back.
  const ModuleCall* enter(PyObject* module, const source::Source* path);
  void leave(const ModuleCall* before) { module_ = before; }
  const ModuleCall* module() const { return module_; }
  /// What backends find as "custom" in `meta` of nodes made from now on: a dict that lives as long as the graph.
  PyObject* custom = nullptr;
  /// The values the graph returns, in order; nodes only.
  std::vector<Node*> outputs;

  const std::vector<Node*>& placeholders() const { return placeholders_; }
  const std::vector<Node*>& nodes() const { return nodes_; }  // calls, in program order
  size_t length() const { return nodes_.size(); }
  /// Every node ever made (dropped ones too) and every hint, in the order they came: what names depend on.
  struct Event {
    Node* node;
    PyObject* hint;                // null: the node was made
    const char* suffix = nullptr;  // not null: the input was made again, when two bodies were given one list of inputs
  };
  const std::vector<Event>& events() const { return events_; }
  bool empty() const { return nodes_.empty(); }

  /// The placeholders, in another order.
  void order(std::vector<Node*> placeholders) { placeholders_ = std::move(placeholders); }
  /// Drops calls whose value is unused and that have no effect, in bodies too, and placeholders nobody uses.
  void remove_dead();
  /// Drops pairs of adjacent torch._C._set_grad_enabled calls of which the second undoes the first.
  void remove_redundant_grad_modes(bool grad_at_start);
  /// One line a node: "add = operator.add(l_x_, 1)  # f32[2]"; what golden tests show.
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
  friend class Copier;  // kept.cpp: a new member has to be copied there

  Arena& arena_;
  Graph* around_ = nullptr;
  const char* prefix_ = "";
  std::string name_;
  meta::Argument result_;
  std::vector<std::unique_ptr<Graph>> bodies_;
  std::unordered_map<const Node*, Node*> lifted_;
  std::map<std::string, int> named_;  // of the outermost: bodies by their prefix, attributes
  std::vector<Owned<>> kept_;         // of the outermost: names of bodies
  std::vector<Node*> placeholders_, nodes_;
  std::vector<Event> events_;
  uint32_t next_id_ = 0;
  const ModuleCall* module_ = nullptr;
  std::unordered_map<const source::Source*, uint32_t> calls_by_path_;
};

/// PyTorch Dynamo's spelling: L['x'] -> "L_x_", L['self']._modules['l'] -> "L_self_modules_l_".
std::string placeholder_name(std::string_view source);

}  // namespace gramme::graph
