// How replay gets each value's object: read from its source, taken from the graph's outputs, or made.
#pragma once
#include <optional>

#include "trace/trace.h"

namespace gramme::trace {

/// Ends the segment before a value that replay cannot make.
[[noreturn]] inline void unsupported(const std::string& what) { cannot(Reason::ReplayUnsupported, what); }

struct Array;

class Rebuilder {
 public:
  explicit Rebuilder(Trace& trace);

  /// The register that will hold the value's object; one object per value.
  plan::Register operator()(Value* value);
  /// Appends the operations of an effect.
  void replay(const effects::Effect& effect);
  /// Sets the grad mode in which the thread is left, whatever backend ran the graph.
  void set_grad_mode(bool on) { op(plan::ReplayKind::SetGradMode).number = on; }
  /// The index of the source among the reads.
  int read(const Source* source);
  /// The index of the expression among the numbers, which follow the reads.
  int number(shape::Expr e);

  const std::vector<const Source*>& reads() const { return reads_; }
  const std::vector<shape::Expr>& numbers() const { return numbers_; }
  const std::vector<graph::Node*>& outputs() const { return outputs_; }
  /// Renumbers the registers of all sorts into one sequence, in the replay and the exit.
  void number_registers(plan::Exit& exit);
  size_t operations() const { return replay_.ops.size(); }
  /// True if the value has a register already.
  bool has(Value* value) const { return memo_.contains(value); }
  plan::Replay take_replay() { return std::move(replay_); }

 private:
  // Until number_registers, registers carry their sort in the high bits.
  static constexpr plan::Register kSort = 1 << 26;
  enum Sort { kRead = 0, kOutput = 1, kConstant = 2, kMade = 3, kNumber = 4 };

  plan::Register make(Value* value);
  plan::Register constant(PyObject* object);
  plan::Register output(graph::Node* node);
  plan::Register fresh() { return kMade * kSort + made_++; }
  plan::ReplayOp& op(plan::ReplayKind kind);
  plan::Register made(plan::ReplayKind kind, PyObject* object = nullptr);
  void operands(plan::ReplayOp& op, const std::vector<plan::Register>& registers);
  void with_operands(plan::ReplayKind kind, plan::Register target, const std::vector<plan::Register>& registers);
  std::vector<plan::Register> all(const std::vector<Value*>& values);
  std::vector<plan::Register> pairs(value::Table& table);
  void fill_dict(plan::Register target, value::Table& table);
  void store_hashed(plan::Register target, value::Table& table, const value::Table::Entry& entry);

  [[noreturn]] void new_leaf(value::Tensor* tensor);
  [[noreturn]] void refuse_batched(const value::Tensor* tensor);
  [[noreturn]] plan::Register never(Value* value);
  // Values that the capture made: one overload for each kind marked REBUILT in kinds.def.
  plan::Register make_new(value::Constant* value);
  plan::Register make_new(value::Builtin* value);
  plan::Register make_new(value::Number* value);
  plan::Register of_data(value::Number* number);
  plan::Register make_new(value::Tensor* tensor);
  plan::Register make_classed(value::Tensor* tensor);
  plan::Register make_new(value::Slice* slice);
  plan::Register make_new(value::Cell* cell);
  plan::Register make_new(value::Method* method);
  plan::Register make_new(value::View* view);
  plan::Register make_new(value::InstanceDict* dict);
  plan::Register make_new(value::Tuple* tuple);
  plan::Register make_new(value::List* list);
  plan::Register make_new(value::Dict* dict);
  plan::Register make_new(value::Set* set);
  plan::Register make_own_set(value::Set* set);
  void fill_set(plan::Register target, value::Set* set, plan::ReplayKind otherwise);
  plan::Register make_new(value::Deque* deque);
  plan::Register make_new(value::Function* function);
  void store_attributes(plan::Register target, const value::Attributes& attributes, PyTypeObject* type = nullptr);
  void store_attribute(plan::Register target, PyObject* name, Value* value, PyTypeObject* type);
  void store_slot(plan::Register target, PyObject* name, Value* value, PyTypeObject* type);
  plan::Register make_new(value::Object* object);
  plan::Register make_array(const value::Object* object, const Array& array);
  plan::Register make_new(value::Class* cls);
  plan::Register made_by_library(value::Class* cls);
  static PyObject* init_abstract();
  plan::Register make_new(value::BuiltinMethod* method);
  /// The register if the value has been made meanwhile: an immutable value can be reached again from its own parts.
  const plan::Register* remembered(Value* value) const;
  void fill_cell(value::Cell* cell);
  // rebuild_frames.cpp
  plan::Register make_new(value::Generator* generator);
  plan::Register frame_object(interp::Frame* frame);
  void fill_frame(plan::Register target, plan::Register function, const FrameState& state, int phase);
  void describe_exception(plan::Register result, value::Object* exception);
  void set_field(plan::Register exception, const char* name, plan::Register value);
  // rebuild_iterators.cpp
  plan::Register make_new(value::Iterator* iterator);
  plan::Register over_sequence(value::Iterator* iterator);
  plan::Register over_reversed(value::Iterator* iterator);
  plan::Register over_entries(value::Iterator* iterator);
  plan::Register over_others(value::Iterator* iterator);
  plan::Register container_of(Value* container);
  plan::Register source_of(Value* iterator);
  plan::Register integer(Py_ssize_t value);
  plan::Register itertool(const char* name, const std::vector<plan::Register>& registers);
  void move(plan::Register iterator, Py_ssize_t position);
  void set_state(PyTypeObject* type, plan::Register iterator, plan::Register state);
  void set_itertool(plan::Register iterator, plan::Register state);
  plan::Register call_method(PyTypeObject* type, const char* name, const std::vector<plan::Register>& registers);
  plan::Register make_new(value::Partial* partial);
  plan::Register call(PyObject* callable, const std::vector<plan::Register>& registers);

  void replay_attribute(const effects::Effect& effect);
  void replay_slot(const effects::Effect& effect);
  void replay_class_attribute(const effects::Effect& effect);
  void store_class_attribute(plan::Register cls, PyObject* name, plan::Register value);
  std::optional<plan::Register> make_descriptor(value::Object* object);
  void replay_content(value::Value* target);
  void replay_calls(size_t last);
  void replay_call(size_t index);
  void replay_list(value::List* list);
  void replay_dict(value::Dict* dict);
  void replay_deque(plan::Register target, value::Deque* deque);
  void replay_iterator(plan::Register target, value::Iterator* iterator);
  void replay_iterators_over(value::Value* container);

  Trace& trace_;
  plan::Replay replay_;
  std::unordered_map<Value*, plan::Register> memo_;
  std::unordered_map<const Source*, int> read_index_;
  std::unordered_map<graph::Node*, int> output_index_;
  std::unordered_map<PyObject*, plan::Register> constants_;
  std::vector<const Source*> reads_;
  std::unordered_map<shape::Expr, int> number_index_;
  std::vector<shape::Expr> numbers_;
  std::vector<graph::Node*> outputs_;
  std::unordered_map<interp::Frame*, plan::Register> frames_;
  std::unordered_set<Value*> filled_;  // cells whose content was stored, containers whose content was replayed
  std::unordered_set<Value*> opened_;  // classes whose namespace is being made
  std::vector<value::Cell*> waiting_;  // cells that will hold a class of opened_
  int made_ = 0;
  std::vector<const effects::Effect*> calls_;  // calls of the log, in order
  size_t called_ = 0;                          // how many of them are replayed
};

}  // namespace gramme::trace
