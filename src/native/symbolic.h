// Numbers that may be others in the next call, as symbols.
//
// While a step is carried out that takes such numbers, PyTorch is given a torch.SymInt or a torch.SymFloat for each.
// The recorder sees them among the operators' arguments; kernels get plain numbers. So it is known where a number came
// from, not guessed by what it is now. Nobody else may look at what a symbol is: then what a step did might not be what
// it does for another number.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/SymNodeImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "native/place.h"
#include "native/tape.h"

namespace gramme::native {

class Recorder;

/// The numbers of a recording, and what they are in its run.
class Numbers {
 public:
  explicit Numbers(const Recorder& recorder) : watch_(new Watch{&recorder}) {}
  ~Numbers() { watch_->recorder = nullptr; }
  Numbers(const Numbers&) = delete;
  /// A number that fits, of the type int itself?
  static bool fits(PyObject* object);
  /// Such a number, or a finite one of the type float itself; null for all else.
  static shape::Expr constant_of(PyObject* object);

  /// A new one, which `waits` until the tape gets to a tensor whose size it is, or is an input.
  NumberId symbol(int64_t value, bool waits);
  NumberId constant(int64_t value);
  /// To `code` comes what computes it that has to wait too.
  NumberId add(shape::Expr e, int64_t value, std::vector<shape::Instruction>& code);
  /// The same of a condition: where it does not hold, code ends without a value.
  void require(shape::Expr condition, std::vector<shape::Instruction>& code);

  int64_t value(NumberId number) const { return values_[static_cast<size_t>(number)]; }
  shape::Expr at(NumberId number) const { return program_.expression(static_cast<shape::Register>(number)); }
  const shape::Program& program() const { return program_; }
  bool waits(NumberId number) const { return waits_[static_cast<size_t>(number)]; }
  bool waits(const shape::Instruction& instruction) const { return waits_[instruction.a] || waits_[instruction.b]; }
  /// A new torch.SymInt or torch.SymFloat that stands for the number, which is `value` now: an int or a float.
  Owned<> symbolic(const Numeral& number, PyObject* value) const;
  /// True if someone learned what a number is, so that what was recorded meanwhile is of this run only.
  bool fixed() const { return watch_->fixed; }
  bool take_fixed() { return std::exchange(watch_->fixed, false); }

  struct Watch {
    const Recorder* recorder;  // null when it is gone
    bool fixed = false;
  };

 private:
  NumberId keep(shape::Register number, int64_t value);
  /// To `code` comes what waits of the program from `first` on.
  void take_waiting(size_t first, std::vector<shape::Instruction>& code);

  shape::Program program_;
  std::vector<int64_t> values_;  // by number, of those that were added
  std::vector<bool> waits_;      // by number
  int64_t symbols_ = 0;
  std::shared_ptr<Watch> watch_;  // symbols may outlive the recording
};

/// The number that a part of an argument stands for: a symbol, the tensor that PyTorch makes of one among the operands
/// of arithmetic (whose content is arbitrary), or a number, which is constant. None for all else.
std::optional<Numeral> numeral_of(const c10::IValue& part);
/// True for a symbol, or a tensor that PyTorch made of one.
bool is_symbol(const c10::IValue& part);

/// Kernels called by this thread while it lives get integers for symbols.
class PlainForKernels {
 public:
  PlainForKernels();

 private:
  c10::impl::IncludeDispatchKeyGuard guard_;
};

/// Numbers computed by the tape on its way: one that is the size of a tensor, or what follows from such.
struct Computation final : Bound {
  Register of = kNone;
  int64_t dimension = 0;
  NumberId size = -1;
  std::vector<shape::Instruction> code;
  // For a division: how Python does it where the code has no value.
  const Step* step = nullptr;
  std::vector<std::pair<ValueId, Place>> operands;
};
void bind_computation(Instruction& instruction, Computation computation);
const Computation& computation_of(const Instruction& instruction);

/// What a step computes that only adds, multiplies … two numbers, or negates or rounds one.
struct Arithmetic {
  shape::Expr (*make)(shape::Expr a, shape::Expr b);  // of one number, b is null
  bool divides;                                       // b must not be zero, whatever the expression's form
};
std::optional<Arithmetic> arithmetic_of(const Step& step);

}  // namespace gramme::native
