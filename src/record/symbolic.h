// Symbols for numbers that may differ at the next call.
//
// A step that takes such numbers receives a torch.SymInt or torch.SymFloat for each. The recorder recognises these
// among the operators' arguments, and kernels get plain numbers. So a number's origin is known, not guessed from its
// value. No other code may read a symbol's value, because the step might then act differently for other numbers.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/SymNodeImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tape/computation.h"

namespace gramme::native {

class Recorder;

/// The numbers of a recording, with their values in its run.
class Numbers {
 public:
  explicit Numbers(const Recorder& recorder) : watch_(new Watch{&recorder}) {}
  ~Numbers() { watch_->recorder = nullptr; }
  Numbers(const Numbers&) = delete;
  /// True for an exact int that fits into 64 bits.
  static bool fits(PyObject* object);
  /// The constant expression for such an int or a finite exact float; null for others.
  static shape::Expr constant_of(PyObject* object);

  /// A new symbol. `waits`: it is the size of a tensor computed by the tape; otherwise it is an input.
  NumberId symbol(int64_t value, bool waits);
  NumberId constant(int64_t value);
  /// Adds an expression; code that must wait for symbols goes to `code`.
  NumberId add(shape::Expr e, int64_t value, std::vector<shape::Instruction>& code);
  /// The same for a condition; if it does not hold, the code ends without a value.
  void require(shape::Expr condition, std::vector<shape::Instruction>& code);

  int64_t value(NumberId number) const { return values_[static_cast<size_t>(number)]; }
  shape::Expr at(NumberId number) const { return program_.expression(static_cast<shape::Register>(number)); }
  const shape::Program& program() const { return program_; }
  bool waits(NumberId number) const { return waits_[static_cast<size_t>(number)]; }
  bool waits(const shape::Instruction& instruction) const { return waits_[instruction.a] || waits_[instruction.b]; }
  /// A new torch.SymInt or torch.SymFloat for the number with present `value`, an int or float.
  Owned<> symbolic(const Numeral& number, PyObject* value) const;
  /// True if a symbol's value was read, so that the recording is valid for this run only.
  bool fixed() const { return watch_->fixed; }
  bool take_fixed() { return std::exchange(watch_->fixed, false); }

  struct Watch {
    const Recorder* recorder;  // null after it was destroyed
    bool fixed = false;
  };

 private:
  NumberId keep(shape::Register number, int64_t value);
  /// Moves the instructions from `first` on that must wait to `code`.
  void take_waiting(size_t first, std::vector<shape::Instruction>& code);

  shape::Program program_;
  std::vector<int64_t> values_;  // by number
  std::vector<bool> waits_;      // by number
  int64_t symbols_ = 0;
  std::shared_ptr<Watch> watch_;  // shared: symbols may outlive the recording
};

/// The number of an argument's part: a symbol, a tensor that PyTorch made of a symbol in arithmetic (its content is
/// arbitrary), or a constant number. Nullopt for others.
std::optional<Numeral> numeral_of(const c10::IValue& part);
/// True for a symbol, or a tensor that PyTorch made of a symbol.
bool is_symbol(const c10::IValue& part);

/// Scope in which this thread's kernels get integers for symbols.
class PlainForKernels {
 public:
  PlainForKernels();

 private:
  c10::impl::IncludeDispatchKeyGuard guard_;
};

void bind_computation(Instruction& instruction, Computation computation);

/// The arithmetic of a step on one or two numbers.
struct Arithmetic {
  shape::Expr (*make)(shape::Expr a, shape::Expr b);  // b is null for unary operations
  bool divides;                                       // b must not be zero, whatever the simplified expression
};
std::optional<Arithmetic> arithmetic_of(const Step& step);

}  // namespace gramme::native
