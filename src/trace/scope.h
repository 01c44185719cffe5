// What belongs to one graph of a capture: its nodes and inputs, what was written to them, the modes it is in.
//
// A capture has one scope, the graph of its segment. Only here operations are added to the graph.
#pragma once
#include <functional>
#include <set>

#include "aten/state.h"
#include "graph/graph.h"
#include "meta/history.h"
#include "meta/unbacked.h"
#include "plan/segment.h"
#include "trace/capture.h"
#include "trace/contents.h"
#include "trace/wrappers.h"

namespace gramme::trace {

/// A torch function mode of the program.
struct FunctionMode {
  Value* mode;
  size_t step;  // of the root frame, at which it was entered
};

/// True if a function of torch.optim is being traced.
bool is_in_optimizer(const Capture& capture);

class Scope {
 public:
  explicit Scope(Capture& capture);
  ~Scope() { put_back(); }
  Scope(const Scope&) = delete;

  /// The graph that operations go into: a body, while one is traced.
  const graph::Graph& graph() const { return *graph_; }
  graph::Graph& graph() { return *graph_; }
  /// The segment's.
  const graph::Graph& root() const { return root_; }
  /// What a room further up keeps with the graph.
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
  /// The program reads sizes that vary, `items` of them one by one: PyTorch's front end makes the tensor an input then,
  /// and nodes that it drops again.
  void note_sizes(value::Tensor* tensor, size_t items);
  /// Nodes made from now on are named as if a call of the function, or of the method of that name, stood before them.
  void skip_name(PyObject* function);
  /// The program stored the tensor in a variable. The first that it does so with is what its node is called.
  void name_after(const value::Tensor* tensor, PyObject* variable);
  /// Computes the expression in the graph, which is no constant.
  graph::Node* node(shape::Expr e);
  /// The placeholder of a symbol.
  graph::Node* symbol_node(shape::Expr symbol);
  /// An argument of a graph node from a value; ends the segment if the value cannot stand in a graph.
  meta::Argument argument(Value* value);
  /// Appends the call to the graph, with inference, mutations and aliasing; the result as a value.
  Value* emit(PyObject* function, const Args& args);
  Value* emit_method(PyObject* name, const Args& args);  // values[0] is self
  /// The same of a call whose result depends on what was computed inside transforms so far.
  Value* emit_remembering(PyObject* function, const Args& args);
  /// Appends the call of a function of Python numbers, without inference; `example` is its value now, and it
  /// is never outside the range. A text is the name of a method.
  value::Number* emit_number(PyObject* function, std::initializer_list<Value*> args, PyTypeObject* type,
                             meta::Interval range, Owned<> example);
  /// Appends a call that changes the thread's state and is not inferred. Its value, if any, may be the argument of a
  /// later such call.
  graph::Node* emit_mode(PyObject* function, const std::vector<meta::Argument>& args,
                         const std::vector<std::pair<PyObject*, meta::Argument>>& keywords = {});

  // ---- bodies of higher-order operators (bodies.cpp)
  /// Operations go into a new graph in this one, until leave().
  graph::Graph* enter_body(const char* prefix);
  /// Where the thread is as it was; else the segment ends.
  void leave_body();
  /// Without a look at anything: the segment ends.
  void abandon_body();
  /// The call of an operator that runs the bodies among its arguments. Whatever these wrote, the call wrote.
  graph::Node* emit_operator(PyObject* target, const std::vector<meta::Argument>& args,
                             const std::vector<std::pair<const char*, meta::Argument>>& keywords = {});
  /// An item of what it gives.
  graph::Node* item(graph::Node* of, size_t index, const meta::Record* record);
  /// The next operator of emit_operator() runs code of the program each time, which may look at anything.
  void expect_program();
  /// An object of the program as an argument of operators, which call it `name`.
  meta::Argument attribute(const std::string& name, PyObject* object);
  /// The body as an argument of operators.
  meta::Argument body(graph::Graph* body);
  /// Notes that capture failed inside a function which this operator runs.
  void refuse_in(const char* operation) { refused_by_ = operation; }
  const char* refused_by() const { return refused_by_; }
  meta::Argument sequence_of(meta::Argument::Kind kind, const std::vector<meta::Argument>& items);

  /// Tensors without dimensions are indices as they are: their numbers are not looked at.
  void index_by_tensors(bool on) { by_tensors_ = on; }

  // ---- functions with gradients of their own
  /// Autograd knows the tensor by another node from now on: what the record says, and its views with it.
  void rebase(value::Tensor* tensor, const meta::Record* record, graph::Node* node);
  /// It is saved as it is now: a later write to its memory ends the segment.
  void keep_unwritten(value::Tensor* tensor);

  // ---- inputs
  /// True if memory that the tensor shares was written in the segment.
  bool is_written_around(const value::Tensor* tensor) const;
  /// The real object behind a placeholder.
  PyObject* input(const graph::Node* placeholder) const { return inputs_.at(placeholder); }
  bool inputs_written() const { return inputs_written_; }  // some graph input was written in place
  /// The real inputs that are written in place.
  template <class F>
  void each_written_input(F&& f) const {
    for (const Write& write : writes_) f(write.root->object);
  }
  /// True if the node writes to an input, as far as is noted.
  bool writes(const graph::Node* node) const {
    return std::ranges::any_of(writes_, [node](const Write& write) { return write.node == node; });
  }
  /// Existing tensors that need a gradient since a write.
  const std::vector<value::Tensor*>& gained() const { return gained_; }
  /// Those whose requires_grad the program set, which their views go by.
  const std::vector<value::Tensor*>& toggled() const { return toggled_; }
  /// Somebody looked into a real tensor.
  void found(value::Tensor* tensor);
  /// Each symbol of a tensor input is an input of its own before the first such tensor.
  void place_symbols();
  /// See Capture::specialized_value.
  PyObject* specialize(value::Number* number);

  // ---- tensors of subclasses, which the graph has as plain ones (classed.cpp)
  /// The capture has a tensor of a subclass from here on. Ends the segment inside an operator that takes functions.
  void note_class();
  bool has_classes() const { return has_classes_; }
  /// True if the __torch_function__ of a class is called here. Not where the thread or the program has switched that
  /// off.
  bool handlers_on() const { return !handlers_off_; }
  bool asks_classes() const { return has_classes_ && !handlers_off_; }
  void switch_handlers(int by) { handlers_off_ += by; }
  /// tensor.as_subclass(type): another object with its memory, a view to autograd.
  value::Tensor* as_class(value::Tensor* tensor, PyTypeObject* type);
  /// True if another object is made of it by as_subclass(), or it of another. Both have one node, so that nothing but
  /// data may change.
  static bool has_twin(const value::Tensor* tensor);
  /// Ends the segment if it has.
  static void refuse_twin(const value::Tensor* tensor, const char* change);

  // ---- tensors that wrap others (wrappers.cpp)
  /// An inner tensor of a wrapper that an operation of the segment made.
  value::Tensor* part(value::Tensor* wrapper, size_t place);
  bool has_wrappers() const;
  /// The memory of the inputs, each inner tensor of a wrapper for itself.
  std::vector<Memory> memory() const;

  // ---- numbers and sizes that come out of data (unbacked.cpp)
  /// It is true from here on: a guard, or checked where the graph runs, which raises if it is not.
  void assert_true(shape::Expr condition);
  /// The same of a number that is data to the capture; false if it is computed of what is none.
  bool assert_true(value::Number* number);
  /// True if a graph may assert here what the program would raise for. If the graph raises the frame must run plainly
  /// then: nothing was done that lasts, and from here on nothing may be.
  bool may_assert();
  /// The data of this tensor are true, or false if it does not hold. False where a graph cannot assert that, or where
  /// the program handles what it raises then: that may be no exception.
  bool assert_true(value::Tensor* tensor, bool holds, Value* text);
  /// True if it is computed of data, without an expression.
  bool is_data(const value::Number* number) const;
  /// The whole number, of the range, that a function of Python numbers gives of data.
  Value* emit_whole(PyObject* function, std::initializer_list<Value*> args, shape::Range range = {});
  /// The node gives one.
  Value* whole_of(graph::Node* node, shape::Range range);
  /// An input of the body under way that is one.
  Value* whole_input(const char* label);
  /// A number, or a constant one, as a tensor of float64 without dimensions; a bool as the tensor that gave it.
  value::Tensor* as_tensor(Value* number);
  /// The only item of a tensor that nothing writes to: as_tensor() of it is the tensor.
  value::Number* item_of(value::Tensor* tensor);
  /// The number is the tensor's only item now.
  void note_item(value::Number* number, value::Tensor* tensor);
  bool has_unbacked() const { return unbacked_ != nullptr; }

  // ---- numbers that tensors hold (contents.cpp)
  /// The only item of a tensor of floats on the CPU, read where it is asked for; null of others.
  value::Number* content(value::Tensor* tensor);
  /// The call's values with numbers for tensors that it takes as scalars: y.add_(x, alpha=tensor). Empty: as they are.
  std::vector<Value*> with_numbers(const meta::Call& call, const Args& args);
  Contents& contents() { return contents_; }
  const Contents& contents() const { return contents_; }

  // ---- autograd and random numbers
  /// True if an operation ran with grad mode on, or the program looked at a tensor's autograd state. Only then do
  /// guards.
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

  // ---- modes: the thread is really in them during the capture, so that what follows is inferred under them
  const aten::GlobalState& initial_state() const { return state_; }
  bool grad_at_start() const { return grad_at_start_; }
  /// Run when the thread is put back in the state in which the capture found it, the last first.
  void when_put_back(std::function<void()> undo) { undo_.push_back(std::move(undo)); }
  /// Nothing can be captured any more afterwards.
  void put_back();
  bool sets_modes() const { return sets_modes_; }  // the graph changes the thread's modes
  /// The instruction being executed enters a mode, which the segment must leave again: where that was.
  size_t enter_mode();
  void leave_mode(size_t step) { entered_modes_.erase(entered_modes_.find(step)); }
  /// The node enters the transform.
  void enter_level(meta::Level level, const graph::Node* node);
  void leave_level();
  /// Transforms of torch.func that the graph entered and has not left yet.
  const std::vector<meta::Level>& levels() const { return levels_; }
  /// Torch function modes entered in the segment and not left, the innermost last.
  const std::vector<FunctionMode>& function_modes() const { return function_modes_; }
  void push_function_mode(FunctionMode mode) { function_modes_.push_back(mode); }
  FunctionMode pop_function_mode();
  /// The root step at which the first mode was entered that is still open; SIZE_MAX if none is.
  size_t first_open_mode() const;

  // ---- what replay does to tensors and to the process after the graph ran (late.cpp)
  /// Replay attaches something to the tensor as it is now: later writes to its memory end the segment, and so does this
  /// if an operation of the segment used it already, since some backends' gradients would then bypass it.
  void fix(value::Tensor* tensor, const char* effect);
  /// The graph attaches something to the tensor as it is now: later writes to its memory end the segment.
  void hold(value::Tensor* tensor);
  /// The graph registers a hook on the tensor that nobody outside would see.
  void hook_inside(const value::Tensor* tensor) { hooked_.emplace(tensor, capture_.steps()); }
  /// The tensor is given out.
  void leaves(const value::Tensor* tensor) const {
    if (auto hooked = hooked_.find(tensor); hooked != hooked_.end()) throw HookLeaves{hooked->second};
  }
  /// Replay changes what the tensor is to autograd: later uses end the segment.
  void close(value::Tensor* tensor);
  /// The same where the program sets requires_grad.
  void toggle(value::Tensor* tensor);
  /// Replay puts the process in a state under which no later operation (no later random one) was captured.
  void set_late_state(const char* name) { late_state_ = name; }
  void set_late_seed(const char* name) { late_seed_ = name; }
  /// torch's default dtype as the program set it: what follows is inferred under it and runs under the one before.
  void note_default_dtype(PyObject* before, PyObject* now);

  // ---- what is put back if the graph raises (restore.cpp)
  /// An operation that may raise comes next: the inputs written so far are put back then. Ends the segment if one
  /// cannot be, and the program might handle the exception.
  void expect_raise();
  /// The inputs whose content must be kept for that. Not those which every run writes over before it reads them.
  std::vector<value::Tensor*> restored() const;
  /// Inputs that the graph writes.
  std::vector<const value::Tensor*> written() const;
  /// The first node that writes an input which is not put back; null if there is none. Once it ran, nothing may run
  /// again.
  const graph::Node* lasting() const;

 private:
  struct BodyState {
    aten::GlobalState modes;
    size_t levels, function_modes;
    int handlers_off;
  };
  /// The node in the graph now, of a value that has one somewhere in the tree.
  graph::Node* here(graph::Node* node);
  bool is_of_graph(const graph::Node* node) const { return node->graph == graph_; }
  graph::Node* take_out(graph::Node* node);
  /// A write that a body's node made is one of the node that runs the body.
  void settle(const graph::Node* caller, const graph::Graph* body);
  void runs(graph::Node* node, const meta::Argument& argument);
  /// The tensor is written to: by each body that it is not of.
  void note_writes_around(const value::Tensor* tensor);

  Value* emit_call(meta::Call& call, const Args& args);
  Value* emit_filled(meta::Call& call, const Args& args);
  void fill(meta::Call& call, const Args& args);
  void fill_opening(meta::Call& call, const Args& args);
  void specialize_needed(meta::Call& call, const Args& args);
  void fix_sizes(meta::Call& call, const Args& args);
  static bool is_symbolic(const meta::Call& call);
  [[noreturn]] void fail(const meta::Call& call, const std::string& message);
  const meta::Outcome& infer(meta::Call& call);
  const meta::Outcome& inferred(meta::Call& call, const Args& args);
  const meta::Outcome& inferred_of_data(const meta::Call& call);
  const meta::Outcome* inferred_by_index(const meta::Call& call);
  meta::Unbacked& unbacked();
  Value* bind_whole(graph::Node* node, shape::Range range);
  bool is_bound(shape::Expr e) const;
  void bind_sizes(const meta::Record& record, graph::Node* node);
  graph::Node* assert_node(graph::Node* condition, const std::string& text);
  value::Tensor* copied_item(const graph::Node* item);
  void remember(graph::Node* node);
  void refuse_writes(const meta::Call& call, const meta::Outcome& outcome, const std::vector<value::Tensor*>& leaves,
                     const Args& args);
  Value* result_value(const meta::Result& result, graph::Node* node, const std::vector<value::Tensor*>& leaves);
  /// Ends the segment where a write changed more of an existing wrapper than data.
  static void refuse_remade(const value::Tensor* wrapper, const meta::Record& after);
  /// The wrappers among the operands say what they are made of; true if one has not done so before.
  bool open_wrappers();
  /// Null if it is none, or nobody knows it yet.
  value::Tensor* known_part(const meta::Result::Part& part, const std::vector<value::Tensor*>& leaves);
  void note_wrapper(value::Tensor* made, const meta::Result& result, const std::vector<value::Tensor*>& leaves);
  void note_parts_written(value::Tensor* wrapper, const graph::Node* node);
  value::Tensor* unwrap(value::Tensor* tensor, int levels);
  void note_leaf(const meta::Result& result);
  bool is_leaf_view(const value::Tensor* tensor) const;
  /// Ends the segment where a class of an operand would be asked, or an operand would change in more than data.
  void refuse_classes(const meta::Outcome& outcome, const std::vector<value::Tensor*>& leaves) const;
  bool is_special_to_autograd(const value::Tensor& tensor) const;
  bool is_refused(const meta::Outcome& outcome, const std::vector<value::Tensor*>& leaves) const;
  /// True if the kernel may raise since an operand shares a part of the memory that is written. Ends the segment if it
  /// will.
  bool overlaps_in_part(const meta::Call& call, const meta::Outcome& outcome,
                        const std::vector<value::Tensor*>& leaves);
  const meta::Record* written_part(const meta::Call& call);
  bool types_may_be_refused(const meta::Call& call, const meta::Outcome& outcome);
  void refuse_leaf_views(const meta::Outcome& outcome, const std::vector<value::Tensor*>& leaves, bool python) const;
  void apply_mutations(const meta::Outcome& outcome, const std::vector<value::Tensor*>& leaves, const graph::Node* node,
                       bool overwritten);
  bool can_be_put_back(const value::Tensor* root);
  /// Notes the write for every tensor that shares the memory, and for those that need a gradient because of it;
  /// `before` is the written one's record.
  void note_written(value::Tensor* tensor, const meta::Record* before);
  /// True if the call writes over part of an input that nothing has read yet.
  bool overwrites(const meta::Call& call, const std::vector<value::Tensor*>& leaves) const;
  void note_input_written(value::Tensor* tensor, const graph::Node* node, bool overwritten);
  /// An operation comes next that writes, and may raise by itself.
  void expect_write(const meta::Outcome& outcome, const std::vector<value::Tensor*>& leaves, bool may_raise);
  void refuse_lasting_write() const;
  /// An operator in Python comes next, or one that may raise after such.
  void expect_python(bool writes);

  /// The argument that a value of the kind is.
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
  struct Write {
    value::Tensor* root;
    const graph::Node* node;
    bool overwritten;  // by the only operation that writes to it
    bool content;      // nothing else of it changed, and autograd does not know
  };
  bool is_written_over(const Write& write) const;
  /// True if its content is put back if the graph raises.
  bool is_put_back(const Write& write) const;
  bool is_written(const value::Tensor* input) const;

  Capture& capture_;
  graph::Graph root_;
  graph::Graph* graph_ = &root_;
  std::vector<BodyState> bodies_;             // under way, as they began
  std::unique_ptr<meta::Unbacked> unbacked_;  // once data is asked for
  meta::Unbacked::Answer of_data_;            // of the call that is being added
  std::vector<shape::Expr> waiting_;          // assertions about what it gives
  struct Item {
    value::Tensor* tensor;
    size_t written;
  };
  std::unordered_map<const graph::Node*, value::Tensor*> as_tensors_;  // numbers of the segment's graph
  std::unordered_map<const graph::Node*, Item> items_;
  size_t written_ = 0;  // so many operations wrote
  const char* refused_by_ = "";
  std::unordered_map<const graph::Node*, PyObject*> inputs_;
  std::unordered_map<const graph::Node*, value::Number*> number_inputs_;
  std::unordered_map<shape::Expr, graph::Node*> symbol_nodes_;
  std::unordered_map<const graph::Graph*, std::unordered_map<shape::Expr, meta::Argument>> computed_;
  std::vector<value::Tensor*> leaves_;   // tensors of the call being built, in the order of its leaves
  std::vector<value::Number*> numbers_;  // of the call being built, likewise
  bool numpy_ints_ = false;              // the call being built gets some as ints
  std::unordered_map<const value::Tensor*, const meta::Record*> described_;  // inputs of sizes that vary, as found
  std::vector<Write> writes_;              // inputs written in place, by their first writes
  size_t restored_ = 0;                    // so many were written before an operation that may raise, or by it
  bool caught_ = false;                    // what an operation of the segment raises must not leave the frame as it is
  const graph::Node* reshaped_ = nullptr;  // the first that changed more of an input than its content
  const graph::Node* entered_ = nullptr;   // the first operator in Python: what else it did nobody knows
  bool enters_ = false;                    // the next operator is one
  bool repeats_ = false;                   // operators in Python may run twice, so that handlers get what is raised
  std::vector<value::Tensor*> late_;       // fixed or closed
  std::unordered_map<const value::Tensor*, size_t> hooked_;  // hook_inside(): at which root step
  std::vector<value::Tensor*> gained_, toggled_;
  bool inputs_written_ = false, random_ = false, autograd_seen_ = false, sets_modes_ = false;
  bool has_leaf_views_ = false;  // under a backend of which it is not known what it makes of them
  aten::GlobalState state_;
  bool grad_at_start_;
  std::vector<std::function<void()>> undo_;
  std::multiset<size_t> entered_modes_;  // root steps at which the graph entered modes that it has not left yet
  std::vector<meta::Level> levels_;
  std::vector<size_t> level_steps_;  // root steps at which they were entered
  meta::History history_;
  std::unordered_map<const graph::Node*, value::Tensor*> remembered_;  // of calls in the history
  bool asks_ = false;                                                  // the call being built depends on the history
  bool by_tensors_ = false;                                            // index_by_tensors()
  bool has_classes_ = false;
  bool opens_ = false;  // the call being built may have wrappers that have not said what they are made of
  int handlers_off_;    // how often, from the start on
  std::vector<FunctionMode> function_modes_;
  const char *late_state_ = nullptr, *late_seed_ = nullptr;
  Owned<> first_dtype_, dtype_;  // torch's defaults: the first one if it was ever changed, and the one now
  Contents contents_;
  mutable Extensions states_;  // each is made when somebody first asks for it
};

/// While it lives no class of an operand is asked what an operation does.
class HandlersOff {
 public:
  explicit HandlersOff(Scope& scope) : scope_(scope) { scope.switch_handlers(1); }
  ~HandlersOff() { scope_.switch_handlers(-1); }
  HandlersOff(const HandlersOff&) = delete;

 private:
  Scope& scope_;
};

}  // namespace gramme::trace
