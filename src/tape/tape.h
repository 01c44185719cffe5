// A tape: the flat form of a program as dispatcher calls on numbered registers, recorded from one real run.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shape/program.h"
#include "tape/casts.h"
#include "tape/composites.h"
#include "tape/program.h"

namespace gramme::native {

/// A register for a tensor: inputs first, then constants, then temporaries.
using Register = int32_t;
constexpr Register kNone = -1;

/// The register of a number: whole numbers among the inputs, sizes that are read, constants, and what is computed from
/// them; floats are stored as bits.
using NumberId = int32_t;

/// A number in an operator's arguments.
struct Numeral {
  enum Kind : uint8_t {
    Constant,  // constant: the same at every call
    Whole,     // index: into Run::numbers
    Float,     // index: into Run::numbers, a float
    Object,    // index: into Run::objects, a Python number
  };
  Kind kind = Constant;
  int32_t index = -1;
  c10::Scalar constant = {};
};

/// An argument of an operator call.
struct OperatorArgument {
  enum Kind : uint8_t {
    Constant,      // constant: any non-tensor, and None for an omitted tensor
    Tensor,        // registers[0], for Tensor and Tensor? alike
    Tensors,       // registers, for Tensor[]
    MaybeTensors,  // registers, kNone for None, for Tensor?[]
    Number,        // numbers[0], which may differ at the next call
    NumberTensor,  // numbers[0], as a wrapped-number tensor: x + s0
    Integers,      // numbers, for int[] with at least one varying number
    Floats,        // likewise, for float[]
    Scalars,       // likewise, for Scalar[]: ints, floats, bools and complex numbers mixed
  };
  Kind kind = Constant;
  c10::IValue constant;
  std::vector<Register> registers;
  std::vector<Numeral> numbers = {};
};

/// Where one of an operator's results goes.
struct OperatorResult {
  enum Kind : uint8_t {
    Dropped,  // not stored: unused, an argument again, undefined, or no tensor
    Tensor,   // registers[0]
    Tensors,  // registers; kNone for unused ones
  };
  Kind kind = Dropped;
  std::vector<Register> registers;
};

struct OperatorCall {
  c10::OperatorHandle op;
  std::vector<OperatorArgument> arguments;
  std::vector<OperatorResult> results;
  bool below_autograd = false;  // called below autograd's kernels: its writes raise no version counter
  bool overwrites = false;      // the program's operator wrote the result into its first argument
};

/// The state to restore when a thread mode is left.
struct Entered {
  virtual ~Entered() = default;
};

struct Remembered;

/// One running call of a tape.
struct Run {
  const at::Tensor** tensors;        // by register: an input, a constant, or one of `own`
  at::Tensor* own;                   // by register: temporaries, and retained inputs
  Owned<>* objects;                  // non-tensor values of Python instructions
  std::unique_ptr<Entered>* modes;   // modes entered and not yet left
  bool below_autograd;               // instructions with keys call these kernels directly
  PyThreadState* released;           // set while the GIL is released
  int64_t* numbers = nullptr;        // by number
  Remembered* remembered = nullptr;  // by instructions that remember something
  bool looks = false;                // the run stops when a signal is pending
};

struct Instruction;
using Invoke = void (*)(const Instruction&, Run&);

/// Data prepared once for an instruction's invoker; immutable, since several threads run it at once.
struct Bound {
  virtual ~Bound() = default;
  /// What a printed tape says after the call.
  virtual const char* note(bool /*below_autograd*/) const { return ""; }
};

struct Instruction {
  enum Kind : uint8_t { Operator, View, Mode, Number, Python, Fused };
  Kind kind = Operator;
  bool typed = false;  // Operator: called by its C++ signature, not boxed
  uint32_t step = 0;   // step of the program
  Invoke invoke = nullptr;
  std::unique_ptr<Bound> bound;
  std::vector<Register> frees;         // temporaries not read afterwards
  std::unique_ptr<OperatorCall> call;  // Operator
  bool below_autograd = false;         // this call is below autograd, however the tape runs
  c10::DispatchKeySet keys;            // if not empty: the kernels to call when Run::below_autograd
};

struct Place;

/// A program in flat form. Immutable; running calls share it.
class Tape {
 public:
  ~Tape();
  std::shared_ptr<const Program> program;
  std::vector<Instruction> instructions;
  std::vector<Place> inputs;     // places of the program's inputs, then of `casts`
  std::vector<Place> output;     // a single place: the program's output
  std::vector<Register> kept;    // further registers that the caller takes; kNone for none
  bool drops_inputs = false;     // the frame owns inputs and frees them after their last use
  std::vector<CastInput> casts;  // inputs that the caller makes of others
  bool has_casts = false;        // it makes the casts that autocast would make, and runs with autocast off
  std::vector<std::pair<Register, at::Tensor>> constants;
  std::vector<int64_t> numbers;              // initial values; not empty if recorded for all sizes
  std::vector<shape::Instruction> at_start;  // computes numbers that depend on inputs only
  std::vector<shape::Expr> expressions;      // by number; null for parts of other expressions
  Register registers = 0, first_temporary = 0;
  int32_t objects = 0, modes = 0, remembered = 0;
  bool below_autograd = false;  // nothing in it needs autograd, autocast or Python keys
  bool inference = false;       // recorded in inference mode, in which kernels may make views
  bool releases_gil = false;    // it may run for long
  bool has_large = false;       // it had large tensors when it was recorded (large_memory.h)
  bool has_python = false, has_modes = false;
  std::optional<KernelSettings> settings;  // set if it holds parts of composites that depend on settings
  bool all_direct = false;                 // every operator calls its kernel directly

  /// Runs the instructions; on an exception `*at` is the index of the one that threw.
  size_t run(Run& run, size_t* at) const { return this->run(run, at, 0, instructions.size()); }
  /// Runs the instructions from `first` to `end`.
  size_t run(Run& run, size_t* at, size_t first, size_t end) const;
  /// The number of inputs that are the program's.
  size_t given() const;
  /// One line per instruction: "%3 = aten::add.Tensor(%0, %1, 1) typed, frees %1".
  std::string print() const;
  /// True if the register is freed after its last use.
  bool is_freed(Register r) const {
    return r >= first_temporary || (drops_inputs && r < first_temporary - static_cast<Register>(constants.size()));
  }
  /// Throws InternalError if a register is read before it is written, or freed twice or never.
  void verify() const;
};

}  // namespace gramme::native
