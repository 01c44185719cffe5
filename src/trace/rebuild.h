// How each value comes into being when a segment has run: read from its source, taken from the graph, or made.
#pragma once
#include "trace/trace.h"

namespace gramme::trace {

class Rebuilder {
 public:
  explicit Rebuilder(Trace& trace) : trace_(trace) {}

  /// The register that will hold the value's object; one object per value.
  plan::Register operator()(Value* value);
  /// Appends what an effect does.
  void replay(const effects::Effect& effect);
  /// Index among the reads.
  int read(const Source* source);

  const std::vector<const Source*>& reads() const { return reads_; }
  const std::vector<graph::Node*>& outputs() const { return outputs_; }
  /// Turns the registers of each sort into one numbering, in the replay and the exit.
  void number_registers(plan::Exit& exit);
  plan::Replay take_replay() { return std::move(replay_); }

 private:
  // Until number_registers, registers carry their sort in the high bits.
  static constexpr plan::Register kSort = 1 << 26;
  enum Sort { kRead = 0, kOutput = 1, kConstant = 2, kMade = 3 };

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

  plan::Register make_tuple(value::Tuple* tuple);
  plan::Register make_list(value::List* list);
  plan::Register make_dict(value::Dict* dict);
  plan::Register make_set(value::Set* set);
  plan::Register make_deque(value::Deque* deque);
  plan::Register make_function(value::Function* function);
  void store_attributes(plan::Register target, const value::Attributes& attributes);
  plan::Register make_object(value::Object* object);
  plan::Register make_generator(value::Generator* generator);
  void set_position(plan::Register iterator, const char* example, Py_ssize_t index);
  plan::Register make_iterator(value::Iterator* iterator);
  plan::Register make_partial(value::Partial* partial);
  plan::Register call(PyObject* callable, const std::vector<plan::Register>& registers);

  void replay_attribute(const effects::Effect& effect);
  void replay_content(value::Value* target);
  void replay_list(value::List* list);
  void replay_dict(value::Dict* dict);

  Trace& trace_;
  plan::Replay replay_;
  std::unordered_map<Value*, plan::Register> memo_;
  std::unordered_map<const Source*, int> read_index_;
  std::unordered_map<graph::Node*, int> output_index_;
  std::unordered_map<PyObject*, plan::Register> constants_;
  std::vector<const Source*> reads_;
  std::vector<graph::Node*> outputs_;
  std::unordered_set<Value*> filled_;  // cells whose content was stored
  int made_ = 0;
};

}  // namespace gramme::trace
