// One capture: graph, effects, guards and values, from a resume point on. Dies at the end of the capture.
//
//   Trace trace(policy);
//   Value* x = trace.wrap(object, trace.pool->local(0, name));   // Lazy: nothing recorded yet
//   Value* seen = trace.see(x);                                  // its kind, with guards
//
// Nothing is undone instruction by instruction: when an instruction cannot be captured, the trace is thrown away and
// made again up to that instruction (interp/capture.cpp), so an instruction that cannot be captured leaves no trace of
// itself.
#pragma once
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/arena.h"
#include "base/error.h"
#include "effects/log.h"
#include "graph/graph.h"
#include "guards/fact.h"
#include "meta/infer.h"
#include "plan/segment.h"
#include "value/value.h"

namespace gramme::trace {

using source::Source;
using value::Value;

class Trace;

/// Vectorcall's shape: values[0, positional) then one value for each name.
struct Args {
  Value* const* values = nullptr;
  size_t positional = 0;
  PyObject* const* names = nullptr;
  size_t keywords = 0;

  Value* operator[](size_t i) const { return values[i]; }
  /// The keyword argument, or null.
  Value* keyword(const char* name) const;
  Value* keyword(PyObject* name) const;
};

/// Where a frame of the capture stands.
struct FrameState {
  value::Function* function;
  int unit;                          // of the last instruction begun
  const std::vector<Value*>& slots;  // null where unbound
  const std::vector<Value*>& stack;
  bool ended;  // nothing will run in it any more
};

/// Runs Python functions symbolically; implemented by interp.
class Inliner {
 public:
  virtual ~Inliner() = default;
  virtual Value* call(value::Function* function, const Args& args) = 0;
  /// Resumes a generator: `sent` becomes the value of its yield, or `thrown` is raised there. The yielded value, or
  /// null when it returned (`returned` then holds the value).
  virtual Value* resume(value::Generator* generator, Value* sent, const value::UserError* thrown, Value** returned) = 0;
  /// Locals of the nearest frame, for zero-argument super(), locals(), …: the value of a variable (or free variable),
  /// or null.
  virtual Value* variable(PyObject* name) = 0;
  /// Does a local of the nearest frame hold the value? Looks into no other.
  virtual bool is_in_local(Value* seen) = 0;
  /// What a slot of the root frame holds now, or null.
  virtual Value* root_local(int64_t slot) = 0;
  virtual value::Function* current_function() = 0;
  virtual FrameState state(const interp::Frame& frame) = 0;
  /// First argument of the nearest frame (for super()), or null.
  virtual Value* first_argument() = 0;
  virtual const graph::Position* position() = 0;
  /// User line of the instruction being executed in the root frame.
  virtual int root_line() = 0;
  /// Instructions of the root frame begun.
  virtual size_t steps() = 0;
};

/// A torch function mode of the program.
struct FunctionMode {
  Value* mode;
  size_t step;  // of the root frame, at which it was entered
};

/// What the capture was told, and what earlier captures of the same resume point taught.
struct Policy {
  std::unordered_set<std::string> dynamic;      // printed sources of numbers that changed between captures
  std::unordered_set<std::string> specialized;  // of numbers that turned out to be needed in Python control flow
  size_t max_instructions = 4'000'000;
  size_t max_nodes = 400'000;
  int max_depth = 500;  // inlined calls
  bool whole = false;   // one graph was asked for
  // For tests:
  Reason beyond = Reason::Budget;  // what refuses the instruction after max_instructions
  size_t stop_at = SIZE_MAX;       // the root step at which the segment must end
};

/// A number that was taken as dynamic is needed as a constant: the capture starts again with it specialised.
struct NeedsConstant {
  std::string source;
};

class Trace {
 public:
  explicit Trace(const Policy& policy);
  ~Trace();
  Trace(const Trace&) = delete;
  /// Puts the thread back in the state in which the capture found it; nothing can be captured any more.
  void put_back();

  Arena arena;
  std::shared_ptr<source::Pool> pool = std::make_shared<source::Pool>();
  graph::Graph graph{arena};
  effects::Log effects;
  const Policy& policy;
  Inliner* inliner = nullptr;
  Value* handled = nullptr;  // the exception being handled (sys.exc_info()), or null
  int depth = 0;             // inlined calls
  std::vector<std::function<void()>>
      undo;                     // run at the end of the capture, last first: modes really entered for inference
  bool inputs_written = false;  // some graph input was written in place
  bool random = false;
  /// Did an operation run with grad mode on, or the program look at a tensor's autograd state? Only then do guards.
  bool autograd_seen = false;
  bool requires_grad(const value::Tensor* tensor) {
    autograd_seen = true;
    return tensor->record->requires_grad;
  }
  bool is_leaf(const value::Tensor* tensor) {
    autograd_seen = true;
    return tensor->record->is_leaf;
  }
  std::vector<value::Generator*> generators;  // made in the capture
  bool sets_modes = false;                    // the graph changes the thread's modes
  std::multiset<size_t> entered_modes;        // root steps at which the graph entered modes that it has not left yet
  std::vector<meta::VmapLevel> levels;        // of torch.vmap that the graph entered and has not left yet
  std::vector<size_t> level_steps;            // root steps at which it did
  std::vector<FunctionMode> function_modes;   // entered in the segment and not left, the innermost last
  size_t stop_at = SIZE_MAX;                  // set with cannot(): the segment must end at this root step already

  // ---- values
  template <class T, class... A>
  T* make(A&&... a) {
    return arena.make<T>(std::forward<A>(a)...);
  }
  /// Keeps a real object alive until the end of the capture.
  PyObject* keep(Owned<> object);
  Value* constant(PyObject* object);  // shares it
  Value* constant(Owned<> object);
  Value* none() const { return none_; }
  Value* boolean(bool b) const { return b ? true_ : false_; }
  Value* integer(int64_t n);
  Value* text(const std::string& s);
  Value* null() const { return null_; }
  value::Tuple* tuple(std::vector<Value*> items);
  value::List* list(std::vector<Value*> items);
  value::Dict* dict();
  /// A builtin, type or module as a value, held by the segment; no guard (the caller has one, or it is immortal).
  Value* pinned(PyObject* object);
  /// A real object that was made by running a pure C function on constants: constants and new containers of them.
  Value* adopt(Owned<> object);
  value::Namespace* namespace_of(PyObject* dict, const Source* source);

  /// A real object at a source, not looked into.
  Value* wrap(PyObject* object, const Source* source);
  /// In the scope, one level deeper in a value: a container may contain itself.
  class Deeper {
   public:
    explicit Deeper(Trace& trace) : trace_(trace) {
      if (trace.nesting_ > kDeepest) cannot(Reason::TooDeep);
      ++trace.nesting_;
    }
    ~Deeper() { --trace_.nesting_; }
    Deeper(const Deeper&) = delete;

   private:
    static constexpr int kDeepest = 500;
    Trace& trace_;
  };
  /// What a value stands for; records the guards of looking into it. Never a Lazy.
  Value* see(Value* value) {
    return value->kind == value::Kind::Lazy ? force(static_cast<value::Lazy*>(value)) : value;
  }
  template <class T>
  T* see_as(Value* value) {
    return value::as<T>(see(value));
  }
  /// The constant's object, or null if it is none. Specialises a Number (throws NeedsConstant).
  PyObject* constant_of(Value* value);
  /// A real object equal to the value if it consists of constants only (tuples, lists, dicts, sets, slices of them),
  /// else null.
  Owned<> concrete(Value* value);

  // ---- state of existing objects, read through the log
  /// An instance's own attribute (no class, no descriptor): the value or null; guarded.
  Value* own_attribute(Value* object, PyObject* name);                    // of an Object, Function, Partial or Dict
  void store_own_attribute(Value* object, PyObject* name, Value* value);  // null deletes
  Value* slot_attribute(value::Object* object, PyObject* name);           // member descriptors
  void store_slot_attribute(value::Object* object, PyObject* name, Value* value);
  /// The raw object along the MRO (borrowed, null if absent); guarded for heap types.
  PyObject* type_lookup(PyTypeObject* type, PyObject* name);
  /// `type.__bases__` may be assigned.
  void guard_mro(PyTypeObject* type);
  /// PyType_IsSubtype, guarded.
  bool is_subtype(PyTypeObject* type, PyTypeObject* base);
  /// Class attributes the capture wrote: seen by every later look at the type or its subclasses.
  /// `raw` is a real object of the value's type; both null delete.
  void store_class_attribute(value::Class* cls, PyObject* name, Value* value, PyObject* raw);
  /// A class that the program makes: the real type gives it its shape, the attributes are what its namespace holds.
  value::Class* new_class(Owned<> type, value::Attributes attributes, std::vector<PyObject*> raws);
  bool is_made(PyTypeObject* type) const;
  /// What its __dict__ shows: raw members by name, as the program left them.
  value::Dict* class_names(value::Class* cls);
  /// What a class holds under a name: a real object of its type, and the value.
  struct ClassEntry {
    PyObject* raw = nullptr;
    Value* value = nullptr;
  };
  /// What the one class holds itself, as the program left it; not guarded.
  ClassEntry own_class_entry(PyTypeObject* type, PyObject* name);
  /// The same as a value with a source below the type.
  Value* type_attribute(PyTypeObject* type, PyObject* name);
  Value* global(value::Namespace* names, PyObject* name);  // null if absent
  void store_global(value::Namespace* names, PyObject* name, Value* value);
  Value* cell_content(value::Cell* cell);  // null if empty
  void store_cell(value::Cell* cell, Value* content);
  /// Existing dict: the entry under the key, read from the real dict if need be; null if missing.
  Value* dict_get(value::Dict* dict, Value* key);
  void dict_set(value::Dict* dict, Value* key, Value* value);
  bool dict_erase(value::Dict* dict, Value* key);
  /// All entries in order are in dict->entries afterwards.
  void load(value::Dict* dict);
  size_t dict_size(value::Dict* dict);
  /// Call before changing a container's content.
  void will_change(Value* container);
  /// Instead of it: one item of a list or deque gets another value.
  void will_store_item(Value* sequence);
  /// What an existing list or deque held before its first change; null if it was never changed.
  const std::vector<Value*>* original_items(Value* container) const;
  void describe(value::Function* function);  // fills code, defaults, closure of an existing function, guarded
  /// Attributes by name in InstanceDict order. For existing objects guards the key set.
  value::Attributes all_attributes(Value* object);

  // ---- tensors
  /// The node of a tensor; makes the placeholder of an input at its first use.
  graph::Node* node(value::Tensor* tensor);
  graph::Node* node(value::Number* number);
  const std::vector<value::Tensor*>& gained() const { return gained_; }
  /// The real inputs that are written in place.
  template <class F>
  void each_written_input(F&& f) const {
    for (const Write& write : writes_) f(write.root->object);
  }
  /// The real object behind a placeholder.
  PyObject* input(const graph::Node* placeholder) const { return inputs_.at(placeholder); }
  /// An argument of a graph node from a value; ends the segment if the value cannot stand in a graph.
  meta::Argument argument(Value* value);
  /// Appends the call to the graph, with inference, mutations and aliasing; the result as a value.
  Value* emit(PyObject* function, const Args& args);
  Value* emit_method(PyObject* name, const Args& args);  // values[0] is self
  Value* emit(PyObject* function, std::initializer_list<Value*> args);

  // ---- what replay does to tensors and to the process after the graph ran (late.cpp)
  /// Replay attaches something to the tensor as it is now: later writes to its memory end the segment, and so does this
  /// if an operation of the segment used it already, since some backends' gradients would then bypass it.
  void fix(value::Tensor* tensor, const char* effect);
  /// Replay changes what the tensor is to autograd: later uses end the segment.
  void close(value::Tensor* tensor);
  /// Of every tensor that shares memory with a written one, and of those that need a gradient because of it.
  void note_written(value::Tensor* tensor, bool gained);
  /// Replay puts the process in a state under which no later operation (no later random one) was captured.
  void set_late_state(const char* name) { late_state_ = name; }
  void set_late_seed(const char* name) { late_seed_ = name; }
  /// torch's default dtype as the program set it: what follows is inferred under it and runs under the one before.
  void note_default_dtype(PyObject* before, PyObject* now);
  /// What a context variable holds, where the capture set it.
  std::unordered_map<Value*, Value*> variables;

  // ---- the program's exceptions (raise.cpp)
  value::Object* exception(PyTypeObject* type, std::vector<Value*> args);
  [[noreturn]] void raise(value::Object* exception);
  /// Turns the Python error that is set into the program's exception.
  [[noreturn]] void raise_current();

  // ---- what is put back if the graph raises (restore.cpp)
  /// An operation that may raise on data comes next: ends the segment if an input written so far cannot be put back.
  void expect_raise();
  /// The inputs whose content must be kept for that. Not those which every run writes over before it reads them.
  std::vector<value::Tensor*> restored() const;

  // ---- guards
  void guard(guards::Fact fact);  // once each
  void guard_type(const Source* source, PyTypeObject* type);
  void guard_absent(const Source* source);
  void guard_length(const Source* source, size_t length);
  const std::vector<guards::Fact>& facts() const { return facts_; }
  /// a is b, of existing objects: a guard when both have sources.
  bool same(Value* a, Value* b);
  /// Counts work against the budget.
  void tick() {
    if (++instructions_ > policy.max_instructions) cannot(policy.beyond);
  }

  /// id(object): the same value for the same object, told apart from the addresses of all others asked for.
  Value* address(Value* object);

  const aten::GlobalState& initial_state() const { return state_; }
  bool grad_at_start() const { return grad_at_start_; }
  /// Every value made from a real object with identity.
  template <class F>
  void each_known(F&& f) {
    for (auto& [object, value] : known_) f(value);
  }
  template <class F>
  void each_namespace(F&& f) {
    for (auto& [dict, names] : namespaces_) f(names);
  }
  /// The attributes of an existing object are known from now on. Ends the segment if its dict is, too.
  void note_dict_of(PyObject* object);

 private:
  Value* force(value::Lazy* lazy);
  void refuse_late(Value* object, PyObject* name);
  Value* realize(PyObject* object, const Source* source);
  void note_content(Value* container);
  Value* number(PyObject* object, const Source* source);
  value::Class* written_class(PyTypeObject* type) const;
  void show(value::Class* cls, const value::Attribute& written);
  bool find_written(PyTypeObject* type, PyObject* name, ClassEntry& found);
  PyObject* real_type_lookup(PyTypeObject* type, PyObject* name);
  Value* as_key(Value* key);
  Value* found_at(PyObject* object, const Source* source);
  Value* realize_tuple(PyObject* object, const Source* source);
  Value* realize_list(PyObject* object, const Source* source);
  Value* realize_dict(PyObject* object, const Source* source);
  Value* realize_set(PyObject* object, const Source* source);
  Value* realize_deque(PyObject* object, const Source* source);
  Value* realize_function(PyObject* object, const Source* source);
  Value* realize_c_function(PyObject* object, const Source* source);
  Value* realize_tensor(PyObject* object, const Source* source);
  Value* realize_object(PyObject* object, const Source* source);
  value::Dict* dict_payload(PyObject* object, const Source* source);
  value::List* list_payload(PyObject* object, const Source* source);
  void load_keys(value::Dict* dict, value::Table& into);
  Value* emit_call(meta::Call& call, const Args& args);
  [[noreturn]] void fail(const meta::Call& call, const std::string& message);
  const meta::Outcome& infer(meta::Call& call);
  void refuse_writes(const meta::Call& call, const meta::Outcome& outcome, const std::vector<value::Tensor*>& leaves,
                     const Args& args);
  const graph::Position* position() { return inliner ? inliner->position() : nullptr; }
  Value* result_value(const meta::Result& result, graph::Node* node, const std::vector<value::Tensor*>& leaves);
  void apply_mutations(const meta::Outcome& outcome, const std::vector<value::Tensor*>& leaves, bool overwritten);
  /// Does the call write over part of an input that nothing has read yet?
  bool overwrites(const meta::Call& call, const std::vector<value::Tensor*>& leaves) const;
  void note_input_written(value::Tensor* tensor, bool overwritten);
  /// The operation that may raise has written by itself.
  void note_raised_write();

  Value *none_, *true_, *false_, *null_;
  std::unordered_map<PyObject*, Value*> known_;  // real objects with identity -> their one value
  std::unordered_map<PyObject*, value::Namespace*> namespaces_;
  std::unordered_set<PyObject*> dicts_of_known_;  // the attributes of known objects
  std::unordered_map<Value*, Value*> addresses_;
  std::vector<Owned<>> kept_;
  std::vector<guards::Fact> facts_;
  std::unordered_set<uint64_t> fact_keys_;
  std::unordered_map<uint64_t, PyObject*> lookups_;
  std::vector<value::Class*> written_classes_;  // or made
  std::unordered_map<Value*, std::vector<Value*>> originals_;
  std::unordered_map<const graph::Node*, PyObject*> inputs_;
  std::vector<value::Tensor*> leaves_;  // tensors of the call being built, in the order of its leaves
  aten::GlobalState state_;
  bool grad_at_start_;
  size_t instructions_ = 0;
  int nesting_ = 0;
  struct Write {
    value::Tensor* root;
    bool overwritten;  // by the only operation that writes to it
  };
  std::vector<Write> writes_;           // inputs written in place, by their first writes
  size_t restored_ = 0;                 // so many were written before an operation that may raise
  std::vector<value::Tensor*> late_;    // fixed or closed
  std::vector<value::Tensor*> gained_;  // existing ones that need a gradient since a write
  const char *late_state_ = nullptr, *late_seed_ = nullptr;
  Owned<> first_dtype_, dtype_;  // torch's defaults: the first one if it was ever changed, and the one now
};

}  // namespace gramme::trace
