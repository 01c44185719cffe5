// The ledger of what a segment writes in place: which tensors, by which nodes, what is put back if the graph raises,
// and what no later write may touch.
//
//   ledger.expect_write(outcome, leaves, may_raise, raising, restorable);  // ends the segment where it must
//   ledger.note_memory(tensor, before, step);                              // every tensor that shares the memory
//   ledger.note_input(tensor, node, overwritten, restorable);              // inputs among them, with the node
//   ledger.note_done(may_raise);
//   ledger.restored(inputs);                                               // when the segment is finished
//
// Nothing is taken back: where a trace ends inside an operation, its ledger goes with it. A body's writes become its
// operator's (settle()).
#pragma once
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "meta/infer.h"
#include "value/value.h"

namespace gramme::effects {

/// What the program makes of an operation that raises where the graph runs.
struct Raising {
  bool runs;                          // the captured call continues: see trace/contract.def, as for the next two
  bool locates;                       // the backend tells which node raised
  bool functionalizes;                // it writes inputs after it has computed everything
  bool breaks;                        // the segment may end here instead
  bool after_effects;                 // the log has entries
  std::function<bool(bool)> handles;  // a running function has a handler; with `true`, one of a `with` counts
  /// True if the program would notice that an exception after an irreversible write skips its handlers or loses
  /// effects. Without locate(), the failing node is unknown.
  bool shows() const { return runs && (!locates || after_effects || handles(true)); }
};

/// What replay changes of a tensor's autograd metadata: nothing may write its memory any more (Fixed), or use it
/// (Closed).
enum class Late : uint8_t { Free, Fixed, Closed };

/// True if the tensors are views of one, or existing ones that share bytes.
bool shares_memory(const value::Tensor* a, const value::Tensor* b);

class WriteLedger {
 public:
  using Tensor = value::Tensor;
  /// The real inputs of the graph, by placeholder.
  using Inputs = std::unordered_map<const graph::Node*, PyObject*>;
  /// True if only the tensor's content was changed, in a way that autograd did not record.
  using Restorable = std::function<bool(const Tensor*)>;

  // ---- before an operation
  /// Call before an operation that may raise: inputs written so far must be restored in that case. Ends the segment if
  /// one cannot be and the program would notice.
  void expect_raise(const Raising& raising);
  /// Call before an operation that writes and may raise itself.
  void expect_write(const meta::Outcome& outcome, const std::vector<Tensor*>& leaves, bool may_raise,
                    const Raising& raising, const Restorable& restorable);
  /// Call before an operator with a kernel in Python, or one that may raise after such an operator. With fullgraph, it
  /// may run twice rather than skip the program's handlers.
  void expect_python(bool writes, const Raising& raising);
  /// Call before an assertion in the graph, after which the frame must run uncompiled. False if that cannot be, since a
  /// write or an operator in Python lasts; else nothing after it may last either, unless the backend `locates`.
  bool may_assert(bool locates);
  /// Declares that the next operator given to note_operator() runs the program's code.
  void expect_program() { enters_ = true; }
  /// Ends the segment at a write to what replay changes later, or at a change of shape that replayed attributes forbid.
  void refuse_write(const Tensor* tensor, const meta::Record* before) const;

  // ---- an operation and its writes
  /// Notes an operator with a kernel in Python.
  void note_python(const graph::Node* node) {
    if (!entered_) entered_ = node;
  }
  bool has_python() const { return entered_ != nullptr; }
  /// Notes an operator that runs bodies.
  void note_operator(const graph::Node* node) {
    if (std::exchange(enters_, false)) note_python(node);
  }
  /// Notes that the memory was written at this root step, for every tensor on the way to its root; `before` is the
  /// tensor's former record.
  void note_memory(Tensor* tensor, const meta::Record* before, size_t step);
  /// Updates the records of the tensor's relatives if the write made it require a gradient. Returns the existing tensor
  /// whose views all do since; null if there is none.
  Tensor* note_gain(Tensor* tensor, const meta::Record* before);
  /// Notes the node as writing the inputs whose memory the tensor shares. `overwritten`: nothing had read the tensor,
  /// and the node overwrites all of it.
  void note_input(Tensor* tensor, const graph::Node* node, bool overwritten, const Restorable& restorable);
  /// Notes a write to the tensor for each body, from `graph` outwards, that the tensor is from outside of.
  static void note_around(const Tensor* tensor, graph::Graph* graph);
  /// Counts an operation that wrote.
  void count_write() { ++count_; }
  size_t count() const { return count_; }
  /// Call after an operation and its writes.
  void note_done(bool may_raise) {
    if (may_raise || caught_) restored_ = writes_.size();
  }
  /// Attributes writes by the body's nodes to the node that runs the body.
  void settle(const graph::Node* caller, const graph::Graph* body);

  // ---- what replay changes after the graph ran
  Late late(const Tensor* tensor) const {
    if (late_.empty()) return Late::Free;
    const auto found = late_.find(tensor);
    return found == late_.end() ? Late::Free : found->second;
  }
  void set_late(const Tensor* tensor, Late late) { late_[tensor] = late; }
  /// Notes that the tensor's present content is saved: a later write to its memory ends the segment.
  void keep_unwritten(const Tensor* tensor) { late_.try_emplace(tensor, Late::Fixed); }
  void note_toggled(Tensor* tensor) { toggled_.push_back(tensor); }
  /// Ends the segment at a real tensor that shares memory with one whose views autograd treats anew.
  void refuse_found(const Tensor* found) const;

  // ---- questions
  /// True if some graph input was written in place.
  bool has_inputs() const { return inputs_written_; }
  /// True if an input is noted as written, if only perhaps.
  bool empty() const { return writes_.empty(); }
  /// The inputs that are noted as written, by their first writes.
  std::vector<const Tensor*> inputs() const;
  /// Calls f(real object) for each of them.
  template <class F>
  void each_input(F&& f) const {
    for (const Write& write : writes_) f(write.root->object);
  }
  /// True if the node is noted as writing an input.
  bool is_by(const graph::Node* node) const;
  /// True if a noted input shares bytes with this one.
  bool is_written(const Tensor* input) const;
  /// True if memory that the tensor shares was written in the segment.
  bool is_written_around(const Tensor* tensor) const;
  /// Existing tensors that require a gradient since a write.
  const std::vector<Tensor*>& gained() const { return gained_; }
  /// Tensors whose requires_grad the program set; their views follow it.
  const std::vector<Tensor*>& toggled() const { return toggled_; }
  /// The inputs that must be saved in case the graph raises. False: the version alone, since every run overwrites the
  /// content before it reads it.
  std::vector<std::pair<Tensor*, bool>> restored(const Inputs& inputs) const;
  /// The first node that writes an input which is not restored; null if there is none. After it nothing may run twice.
  const graph::Node* lasting(const Inputs& inputs) const;

 private:
  struct Write {
    Tensor* root;
    const graph::Node* node;
    bool overwritten;  // its only write overwrites all of it
    bool content;      // only content changed, unrecorded by autograd
  };
  /// True if a second run would overwrite the tensor before reading it.
  static bool is_written_over(const Write& write, const Inputs& inputs);
  /// True if the write is undone when the graph raises.
  bool is_put_back(const Write& write) const;

  std::vector<Write> writes_;              // inputs written in place, by their first writes
  size_t restored_ = 0;                    // how many come before or in an operation that may raise
  size_t count_ = 0;                       // number of operations that wrote
  bool inputs_written_ = false;            // opaque operators not counted
  bool caught_ = false;                    // the program may handle what an operation raises
  bool keeps_parameters_ = false;          // saves tensors that require gradients and are written with grad mode off:
                                           // an optimizer writes all of them, so only where the segment would end
  const graph::Node* reshaped_ = nullptr;  // first node that changed more of an input than content
  const graph::Node* entered_ = nullptr;   // first operator in Python, with unknown side effects
  bool enters_ = false;                    // the next operator is one
  bool repeats_ = false;                   // operators in Python may run twice, for the program's handlers
  std::unordered_set<const Tensor*> memory_;  // roots whose memory was written
  std::unordered_map<const Tensor*, Late> late_;
  std::vector<Tensor*> gained_, toggled_;
};

}  // namespace gramme::effects
