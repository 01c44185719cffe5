// What belongs to one graph of a capture: nodes, inputs, writes to them, and modes.
//
// A capture has one scope, for its segment's graph. Operations are added to graphs only here.
#pragma once
#include <functional>

#include "effects/write_ledger.h"
#include "graph/graph.h"
#include "meta/history.h"
#include "plan/segment.h"
#include "trace/capture.h"
#include "trace/contents.h"
#include "trace/data_numbers.h"
#include "trace/graph_inputs.h"
#include "trace/mode_stack.h"
#include "trace/shown.h"
#include "trace/wrappers.h"

namespace gramme::trace {

struct Refusal;  // refusals.h

class Scope {
 public:
  explicit Scope(Capture& capture);
  Scope(const Scope&) = delete;

  /// The graph that operations go into: a body, while one is traced.
  const graph::Graph& graph() const { return *graph_; }
  graph::Graph& graph() { return *graph_; }
  /// The segment's own graph.
  const graph::Graph& root() const { return root_; }
  /// State that a higher room keeps with the graph, by type.
  template <class T>
  T& state() {
    return states_.get<T>();
  }
  template <class T>
  const T& state() const {
    return states_.get<T>();
  }

  // ---- operations (emit.cpp, arguments.cpp)
  /// The node of a tensor; makes the placeholder of an input at its first use.
  graph::Node* node(value::Tensor* tensor);
  graph::Node* node(value::Number* number);
  graph::Node* computed_node(value::Number* number);
  /// Call when the program reads varying sizes, `items` of them one by one. PyTorch's front end makes the tensor an
  /// input then, and names nodes that it later drops.
  void note_sizes(value::Tensor* tensor, size_t items);
  /// Uses up the node name of a call of the function or method, so that later nodes are numbered as in PyTorch's
  /// graphs.
  void skip_name(PyObject* function);
  /// Names the tensor's node after the first variable in which the program stores it.
  void name_after(const value::Tensor* tensor, PyObject* variable);
  /// A node that computes the expression, which is not constant.
  graph::Node* node(shape::Expr e);
  /// The placeholder of a symbol.
  graph::Node* symbol_node(shape::Expr symbol);
  /// The value as an argument of a graph node; ends the segment if graphs cannot have it.
  meta::Argument argument(Value* value);
  /// Appends the call to the graph, with inference, mutations and aliasing; the result as a value.
  Value* emit(PyObject* function, const Args& args);
  Value* emit_method(PyObject* name, const Args& args);  // values[0] is self
  Value* detached(Value* tensor);                        // tensor.detach()
  /// The same for a call whose result depends on earlier computations inside transforms.
  Value* emit_remembering(PyObject* function, const Args& args);
  /// Appends a call of a function of Python numbers, without inference. `example` is its present value, and all its
  /// values lie in `range`. A str as function names a method.
  value::Number* emit_number(PyObject* function, std::initializer_list<Value*> args, PyTypeObject* type,
                             meta::Interval range, Owned<> example);
  /// Appends a call that changes the thread's state; it is not inferred. A later such call may take its value as
  /// argument.
  graph::Node* emit_mode(PyObject* function, const std::vector<meta::Argument>& args,
                         const std::vector<std::pair<PyObject*, meta::Argument>>& keywords = {});

  // ---- bodies of higher-order operators (bodies.cpp)
  /// Directs operations into a new graph inside this one, until leave_body().
  graph::Graph* enter_body(const char* prefix);
  /// Ends the body. Ends the segment if the thread's state is not what it was at the body's start.
  void leave_body();
  /// Leaves the body without checks, when the segment ends inside it.
  void abandon_body();
  /// Appends a call of an operator that runs the bodies among its arguments. Writes in the bodies count as its own.
  graph::Node* emit_operator(PyObject* target, const std::vector<meta::Argument>& args,
                             const std::vector<std::pair<const char*, meta::Argument>>& keywords = {});
  /// A node for an item of `of`'s result.
  graph::Node* item(graph::Node* of, size_t index, const meta::Record* record);
  /// Declares that the next operator of emit_operator() runs the program's code, which may read anything.
  void expect_program();
  /// An object of the program as an argument of operators, under the name `name`.
  meta::Argument attribute(const std::string& name, PyObject* object);
  /// The body as an argument of operators.
  meta::Argument body(graph::Graph* body);
  /// Notes that capture failed inside a function which this operator runs.
  void refuse_in(const char* operation) { refused_by_ = operation; }
  const char* refused_by() const { return refused_by_; }
  meta::Argument sequence_of(meta::Argument::Kind kind, const std::vector<meta::Argument>& items);

  /// Passes tensors without dimensions as indices unchanged, without reading their numbers.
  void index_by_tensors(bool on) { building_.by_tensors = on; }

  // ---- functions with gradients of their own
  /// Gives the tensor a new node and description, since autograd has a new node for it and its views.
  void rebase(value::Tensor* tensor, const meta::Record* record, graph::Node* node);

  // ---- inputs
  const GraphInputs& inputs() const { return inputs_; }
  Shown& shown() { return shown_; }
  /// Called when a real tensor was looked into.
  void found(value::Tensor* tensor);
  /// Makes each symbol of a tensor input an input of its own, before the first tensor that has it.
  void place_symbols();
  /// See Capture::specialized_value.
  PyObject* specialize(value::Number* number);

  // ---- tensors of subclasses, which the graph has as plain ones (classed.cpp)
  /// Notes that the capture has a tensor of a subclass. One that the graph has as a plain tensor ends the segment
  /// inside an operator that takes functions.
  void note_class(PyTypeObject* type);
  bool has_classes() const { return has_classes_; }
  bool asks_classes() const { return has_classes_ && modes_.handlers_on(); }
  /// tensor.as_subclass(type): a new object that shares memory, a view to autograd. Without `view` it is what
  /// _make_subclass() makes: `tensor` is the result of detach(), and the new object is not a view of it.
  value::Tensor* as_class(value::Tensor* tensor, PyTypeObject* type, bool view = true);
  /// True if as_subclass() made the tensor of another one, or another of it. Both share a node, so only data may
  /// change.
  static bool has_twin(const value::Tensor* tensor);
  /// Ends the segment if the tensor has a twin.
  static void refuse_twin(const value::Tensor* tensor, const char* change);

  // ---- tensors that wrap others (wrappers.cpp)
  /// An inner tensor of a wrapper, found by an operation if it is not known yet.
  value::Tensor* part(value::Tensor* wrapper, size_t place);
  bool has_wrappers() const;
  /// The memory of the inputs; for a wrapper, that of each inner tensor.
  std::vector<Memory> memory() const;

  // ---- numbers and sizes that come out of data (unbacked.cpp)
  /// Makes the condition true from here on: by a guard, or by a check in the graph that raises otherwise.
  void assert_true(shape::Expr condition);
  /// The same for a data-dependent number; false if the number does not come from data.
  bool assert_true(value::Number* number);
  /// True if the graph may assert a condition for which the program would raise. If the assertion fails, the frame must
  /// run uncompiled, so no irreversible write may precede it; from now on none may follow either.
  bool may_assert();
  /// Asserts that the tensor's data is true (`holds`) or false. Returns false if the graph cannot assert it, or if the
  /// program handles the exception: its own might not be raised.
  bool assert_true(value::Tensor* tensor, bool holds, Value* text);
  /// True if the number was computed from data and has no expression.
  bool is_data(const value::Number* number) const;
  /// The whole number in `range` that a function of Python numbers computes from data.
  Value* emit_whole(PyObject* function, std::initializer_list<Value*> args, shape::Range range = {});
  /// The whole number that the node returns.
  Value* whole_of(graph::Node* node, shape::Range range);
  /// A new whole-number input of the body being traced.
  Value* whole_input(const char* label);
  /// A number as a float64 tensor without dimensions; a bool as the tensor it came from.
  value::Tensor* as_tensor(Value* number);
  /// The only item of a tensor that is never written: its as_tensor() is the tensor.
  value::Number* item_of(value::Tensor* tensor);
  /// Notes that the number is the tensor's only item at present.
  void note_item(value::Number* number, value::Tensor* tensor);
  const DataNumbers& data() const { return data_; }

  // ---- numbers that tensors hold (contents.cpp)
  /// The only item of a float tensor on the CPU, as read at this point; null for other tensors.
  value::Number* content(value::Tensor* tensor);
  /// The call's values with numbers in place of tensors that it takes as scalars, as in y.add_(x, alpha=tensor). Empty
  /// if nothing changes.
  std::vector<Value*> with_numbers(const meta::Call& call, const Args& args);
  Contents& contents() { return contents_; }
  const Contents& contents() const { return contents_; }

  // ---- autograd and random numbers
  /// True if an operation ran with grad mode on, or the program read a tensor's autograd state. Only then is that
  /// guarded.
  bool autograd_seen() const { return autograd_seen_; }
  bool requires_grad(const value::Tensor* tensor) {
    autograd_seen_ = true;
    return tensor->record->requires_grad;
  }
  bool is_leaf(const value::Tensor* tensor) {
    autograd_seen_ = true;
    return tensor->record->is_leaf;
  }
  bool random() const { return random_; }  // some operation draws from a generator

  // ---- modes (scope.cpp)
  ModeStack& modes() { return modes_; }
  const ModeStack& modes() const { return modes_; }
  /// Notes that the present instruction enters a mode that the segment must leave; returns the step.
  size_t enter_mode() { return modes_.enter(capture_.steps() - 1); }
  /// Notes that the node enters the transform.
  void enter_level(meta::Level level, const graph::Node* node);

  // ---- what replay does to tensors and to the process after the graph ran (late.cpp)
  /// Notes that replay attaches something to the tensor in its present state: later writes to its memory end the
  /// segment. Ends the segment if an operation has used the tensor already, since some backends' gradients would bypass
  /// the attachment.
  void fix(value::Tensor* tensor, const char* effect);
  /// Notes that the graph registers a hook on the tensor, which would be lost outside the graph.
  void hook_inside(const value::Tensor* tensor) { hooked_.emplace(tensor, capture_.steps()); }
  /// Call when the tensor leaves the graph.
  void leaves(const value::Tensor* tensor) const {
    if (auto hooked = hooked_.find(tensor); hooked != hooked_.end()) throw HookLeaves{hooked->second};
  }
  /// Notes that replay changes the tensor's autograd state: later uses end the segment.
  void close(value::Tensor* tensor);
  /// The same for a change of requires_grad.
  void toggle(value::Tensor* tensor);
  /// Notes that replay changes a state of the process, under which no later (random) operation may be captured. With
  /// `is_late`, one may be while that returns false, since the program has put the state back.
  void set_late_state(const char* name, std::function<bool()> is_late = nullptr) {
    if (!late_state_ || is_late_) late_state_ = name, is_late_ = std::move(is_late);
  }
  void set_late_seed(const char* name) { late_seed_ = name; }

  // ---- writes in place (written.cpp)
  effects::WriteLedger& writes() { return writes_; }
  const effects::WriteLedger& writes() const { return writes_; }
  /// Call before an operation that may raise: see WriteLedger::expect_raise.
  void expect_raise();

 private:
  /// The node in the present graph for a value that has a node in an outer graph or body.
  graph::Node* here(graph::Node* node);
  bool is_of_graph(const graph::Node* node) const { return node->graph == graph_; }
  graph::Node* take_out(graph::Node* node);
  void runs(graph::Node* node, const meta::Argument& argument);

  Value* emit_call(meta::Call& call, const Args& args);
  Value* emit_filled(meta::Call& call, const Args& args);
  void fill(meta::Call& call, const Args& args);
  void fill_opening(meta::Call& call, const Args& args);
  void specialize_needed(meta::Call& call, const Args& args);
  void fix_sizes(meta::Call& call, const Args& args);
  static bool is_symbolic(const meta::Call& call);
  [[noreturn]] void fail(const meta::Call& call, const std::string& message);
  /// Ends the segment for the row's reason.
  [[noreturn]] void refuse(const Refusal& row, const meta::Call& call, const meta::Outcome* outcome = nullptr);
  const meta::Outcome& infer(meta::Call& call);
  const meta::Outcome& inferred(meta::Call& call, const Args& args);
  const meta::Outcome& inferred_of_data(const meta::Call& call);
  const meta::Outcome* inferred_by_index(const meta::Call& call);
  Value* bind_whole(graph::Node* node, shape::Range range);
  bool is_bound(shape::Expr e) const;
  void bind_sizes(const meta::Record& record, graph::Node* node);
  graph::Node* assert_node(graph::Node* condition, const std::string& text);
  value::Tensor* copied_item(const graph::Node* item);
  void remember(graph::Node* node);
  void refuse_writes(const meta::Call& call, const meta::Outcome& outcome, const std::vector<value::Tensor*>& leaves,
                     const Args& args);
  Value* result_value(const meta::Result& result, graph::Node* node, const std::vector<value::Tensor*>& leaves);
  /// Ends the segment if a write changed more of an existing wrapper than data.
  static void refuse_remade(const value::Tensor* wrapper, const meta::Record& after);
  /// Finds the inner tensors of wrappers among the operands; true if some were unknown before.
  bool open_wrappers();
  /// The tensor of an inner part; null if the part is not of an operand, or not known yet.
  value::Tensor* known_part(const meta::Result::Part& part, const std::vector<value::Tensor*>& leaves);
  void note_wrapper(value::Tensor* made, const meta::Result& result, const std::vector<value::Tensor*>& leaves);
  void note_parts_written(value::Tensor* wrapper, const graph::Node* node);
  value::Tensor* unwrap(value::Tensor* tensor, int levels);
  void note_leaf(const meta::Result& result);
  bool is_leaf_view(const value::Tensor* tensor) const;
  /// Ends the segment if the class of an operand would be asked, or if an operand would change in more than data.
  void refuse_classes(const meta::Outcome& outcome, const std::vector<value::Tensor*>& leaves) const;
  bool is_special_to_autograd(const value::Tensor& tensor) const;
  bool is_refused(const meta::Outcome& outcome, const std::vector<value::Tensor*>& leaves) const;
  /// True if the kernel may raise because an operand overlaps part of the written memory. Ends the segment if it surely
  /// will.
  bool overlaps_in_part(const meta::Call& call, const meta::Outcome& outcome,
                        const std::vector<value::Tensor*>& leaves);
  const meta::Record* written_part(const meta::Call& call);
  bool types_may_be_refused(const meta::Call& call, const meta::Outcome& outcome);
  void refuse_leaf_views(const meta::Outcome& outcome, const std::vector<value::Tensor*>& leaves, bool python) const;
  void apply_mutations(const meta::Outcome& outcome, const std::vector<value::Tensor*>& leaves, const graph::Node* node,
                       bool overwritten);
  effects::Raising raising() const;
  effects::WriteLedger::Restorable restorable() const;
  /// Notes the write for every tensor that shares the memory, and for those that require a gradient since; `before` is
  /// the tensor's former record.
  void note_written(value::Tensor* tensor, const meta::Record* before);
  /// True if the call overwrites an input that nothing has read yet.
  bool overwrites(const meta::Call& call, const std::vector<value::Tensor*>& leaves) const;
  void note_input_written(value::Tensor* tensor, const graph::Node* node, bool overwritten);

  /// Overloads that make the argument for a value of each kind.
  meta::Argument passed(value::Constant* constant);
  meta::Argument passed(value::Tensor* tensor);
  meta::Argument passed(value::Number* number);
  meta::Argument passed(value::Tuple* tuple);
  meta::Argument passed(value::List* list);
  meta::Argument passed(value::Dict* dict);
  meta::Argument passed(value::Slice* slice);
  meta::Argument passed(value::Class* seen);
  meta::Argument passed(value::Object* object);

  graph::Node* first_of(const value::Number* number, graph::Node* made);

  class Arithmetic;
  /// What is known of a call while its arguments are filled in, and until it is in the graph.
  struct Building {
    std::vector<value::Tensor*> leaves;   // its tensors, in the order of its leaves
    std::vector<value::Number*> numbers;  // likewise
    bool numpy_ints = false;              // some are NumPy's
    bool asks = false;                    // its result depends on the history
    bool by_tensors = false;              // index_by_tensors()
    bool opens = false;                   // it may have wrappers with unknown inner tensors
    void clear() { leaves.clear(), numbers.clear(), numpy_ints = false; }
  };

  Capture& capture_;
  graph::Graph root_;
  GraphInputs inputs_{root_};
  Shown shown_{root_};
  graph::Graph* graph_ = &root_;
  DataNumbers data_;
  const char* refused_by_ = "";
  Building building_;
  effects::WriteLedger writes_;
  std::unordered_map<const value::Tensor*, size_t> hooked_;  // hook_inside(): at which root step
  bool random_ = false, autograd_seen_ = false;
  bool has_leaf_views_ = false;  // under a backend that may not support them
  meta::History history_;
  std::unordered_map<const graph::Node*, value::Tensor*> remembered_;  // results of calls in the history
  bool has_classes_ = false;
  bool has_twins_ = false;  // of them, some that the graph has as plain tensors
  const char *late_state_ = nullptr, *late_seed_ = nullptr;
  std::function<bool()> is_late_;  // whether late_state_ still differs; null: always
  Contents contents_;
  mutable Extensions states_;  // each is made at its first use
  ModeStack modes_;            // put back while the rest is there
};

}  // namespace gramme::trace
