// Records the first real run of a program as a tape.
//
// Each step runs in Python while the recorder watches the dispatcher. If the observed operators are all that the step
// did, they become instructions; otherwise the step stays a Python call.
#pragma once
#include <memory>
#include <optional>

#include "passes/assemble.h"
#include "passes/views.h"
#include "record/recorder.h"
#include "record/targets.h"
#include "record/warnings.h"
#include "tape/casts.h"
#include "tape/place.h"
#include "tape/stepper.h"

namespace gramme::native {

/// True if the object contains a tensor of a subclass, or one whose operators involve Python code.
bool has_odd_tensor(PyObject* object);

class Recording {
 public:
  /// `any_sizes`: the tape serves other sizes, and other numbers among the inputs. `trains`: a flat tape may be made
  /// too. `casts`: without gradients, the tape makes autocast's casts itself and is below autocast.
  Recording(std::shared_ptr<const Program> program, PyObject* const* inputs, bool any_sizes, bool trains, bool casts);
  /// Runs the program; returns its output. On an exception `*failed` is the step that raised. Throws PythonError.
  Owned<> run(size_t* failed);
  /// Makes the tape, after run().
  std::unique_ptr<Tape> assemble();
  /// Makes the flat tape, before assemble(): the operators for which autograd's kernels were called, with composites
  /// replaced. Null if the steps do more than that.
  std::unique_ptr<Tape> assemble_flat();
  /// Why there is no flat tape; empty if none was requested.
  const std::string& why_not_flat() const { return why_not_flat_; }
  /// True if the run depended on the values of its numbers, so that the tape is useless.
  bool fixed() const { return recorder_.numbers().fixed(); }
  /// Why a tape with casts is useless, since a step needs autocast; empty if none does.
  std::string why_autocast() const;

 private:
  void record(size_t index);
  PyObject* carry_out(size_t index);
  bool takes_symbols(const Step& step);
  bool add_number(size_t index);
  shape::Expr number_at(const Operand& operand) const;
  bool waits_for_data(const Step& step) const;
  bool add_mode(size_t index, PyObject* result);
  bool add_element(size_t index);
  bool add_literal(size_t index, PyObject* result);
  bool add_contiguous(size_t index, PyObject* result);
  bool add_index(size_t index, PyObject* result);
  std::optional<Amount> amount_at(const Operand& operand, int64_t if_none) const;
  std::optional<IndexItem> index_item(const Operand& operand) const;
  bool indexes_by_tensors(const Step& step, const std::vector<Observed>& observed) const;
  void add_python(size_t index, PyObject* result, std::string why);
  void add_operators(size_t index, std::vector<Observed>& observed, bool casts = false);
  void add_operator(size_t index, Observed& observed, bool casts);
  bool can_be_taken_apart(const Observed& observed) const;
  std::string why_python(const Step& step, PyObject* result, std::vector<Observed>& observed);
  std::optional<Numeral> numeral_of(ValueId value) const;
  std::optional<Place> find(PyObject* result) const;
  bool is_steady(const Step& step) const;
  Place add_result(PyObject* result, bool fixed, bool by_data);
  Place place_of(const Operand& operand) const;
  Assembly assembly(std::vector<Instruction> instructions) const;
  void flatten(size_t step, const Observed& record, bool casts = false);
  std::string why_not_flat(const Observed& record) const;
  void stay_eager(std::string why);
  void flatten(size_t step, const OperatorCall& call, bool casts = false);
  bool add_cast(const OperatorCall& call);
  void add_casts(Assembly& assembly) const;
  bool casts_associate() const;
  bool is_input_alone(Register r) const;
  bool shares_with_inputs(Register r) const;
  Place& place(ValueId value) { return places_[static_cast<size_t>(value)]; }
  const Place& place(ValueId value) const { return places_[static_cast<size_t>(value)]; }
  Instruction& append(size_t step);

  std::shared_ptr<const Program> program_;
  Stepper stepper_;
  const bool casts_;  // autocast's casts are to be instructions
  const bool inference_;
  bool below_autograd_;  // true until something needs autograd
  bool trains_;          // true until a flat tape becomes impossible
  std::string why_not_flat_;
  bool took_apart_ = false;  // a composite was replaced by what it called
  bool symbols_ = false;     // the step received symbols for numbers
  Recorder recorder_;
  Targets targets_;
  std::vector<Observed> observed_;  // calls of the step being recorded
  WarningsWatch warnings_;
  Register inputs_ = 0;        // registers below this are inputs
  std::vector<Place> places_;  // by value
  std::vector<Instruction> instructions_, flat_;
  int32_t objects_ = 0, modes_ = 0;
  std::unordered_map<ValueId, int32_t> slots_;       // slots of entered modes
  std::vector<bool> may_be_cached_;                  // by register of an input: autocast keeps its cast
  std::vector<std::pair<Register, Register>> made_;  // inputs that autocast casts, and the results
  bool met_autocast_ = false;
  std::string why_autocast_;
};

}  // namespace gramme::native
