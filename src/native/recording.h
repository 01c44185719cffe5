// The first real run of a program, and the tape that comes of it.
//
// Each step is carried out through Python while the recorder watches the dispatcher. What it saw becomes instructions
// if they are all that the step did; else the step stays a Python call, in its place.
#pragma once
#include <memory>
#include <optional>

#include "native/assemble.h"
#include "native/place.h"
#include "native/recorder.h"
#include "native/stepper.h"
#include "native/targets.h"
#include "native/views.h"
#include "native/warnings.h"

namespace gramme::native {

/// True if a tensor in the object is of a class of its own, or Python code takes part in its operators.
bool has_odd_tensor(PyObject* object);

class Recording {
 public:
  /// `any_sizes`: the tape is for tensors of other sizes too, and for other numbers among the inputs. `trains`: there
  /// may be a flat tape, too.
  Recording(std::shared_ptr<const Program> program, PyObject* const* inputs, bool any_sizes, bool trains);
  /// The program's output. On an exception `*failed` is the step it came from. Throws PythonError.
  Owned<> run(size_t* failed);
  /// After a run: its tape.
  std::unique_ptr<Tape> assemble();
  /// Before that: a tape that calls what autograd's kernels were called for, composites taken apart; null if there is
  /// more to the steps than that.
  std::unique_ptr<Tape> assemble_flat();
  /// Why there is none; empty if none was asked for.
  const std::string& why_not_flat() const { return why_not_flat_; }
  /// True if the run depended on what its numbers were. Then the tape is of no use.
  bool fixed() const { return recorder_.numbers().fixed(); }

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
  void add_operators(size_t index, std::vector<Observed>& observed);
  void add_operator(size_t index, Observed& observed);
  bool can_be_taken_apart(const Observed& observed) const;
  std::string why_python(const Step& step, PyObject* result, std::vector<Observed>& observed);
  std::optional<Numeral> numeral_of(ValueId value) const;
  std::optional<Place> find(PyObject* result) const;
  bool is_steady(const Step& step) const;
  Place add_result(PyObject* result, bool fixed, bool by_data);
  Place place_of(const Operand& operand) const;
  Assembly assembly(std::vector<Instruction> instructions) const;
  void flatten(size_t step, const Observed& record);
  std::string why_not_flat(const Observed& record) const;
  void stay_eager(std::string why);
  void flatten(size_t step, const OperatorCall& call);
  bool is_input_alone(Register r) const;
  bool shares_with_inputs(Register r) const;
  Place& place(ValueId value) { return places_[static_cast<size_t>(value)]; }
  const Place& place(ValueId value) const { return places_[static_cast<size_t>(value)]; }
  Instruction& append(size_t step);

  std::shared_ptr<const Program> program_;
  Stepper stepper_;
  bool below_autograd_;  // may be, as far as is known
  bool trains_;          // may a flat tape be made of it, as far as is known?
  std::string why_not_flat_;
  bool took_apart_ = false;  // an operator was replaced by what it called
  bool symbols_ = false;     // was the step given symbols for numbers?
  Recorder recorder_;
  Targets targets_;
  std::vector<Observed> observed_;  // by the step that is being recorded
  WarningsWatch warnings_;
  Register inputs_ = 0;        // those below are inputs
  std::vector<Place> places_;  // by value
  std::vector<Instruction> instructions_, flat_;
  int32_t objects_ = 0, modes_ = 0;
  std::unordered_map<ValueId, int32_t> slots_;  // of modes entered
};

}  // namespace gramme::native
