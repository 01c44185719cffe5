// The flat form of a program: calls of PyTorch's dispatcher on numbered registers, as one real run made them.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "native/composites.h"
#include "native/program.h"
#include "shape/program.h"

namespace gramme::native {

/// A place for a tensor: the inputs first, then constants, then temporaries.
using Register = int32_t;
constexpr Register kNone = -1;

/// A number of a tape, in a register of its own kind: a symbol for each whole number among the inputs and each size
/// that is read, constants, and what is computed of them, floats as bits.
using NumberId = int32_t;

/// A number among an operator's arguments.
struct Numeral {
  enum Kind : uint8_t {
    Constant,  // constant: the same at every call
    Whole,     // index: into Run::numbers
    Float,     // index: the same, of a float
    Object,    // index: into Run::objects, of a Python number
  };
  Kind kind = Constant;
  int32_t index = -1;
  c10::Scalar constant = {};
};

/// What an operator is called with.
struct OperatorArgument {
  enum Kind : uint8_t {
    Constant,      // constant: everything that is no tensor, and None for a tensor left out
    Tensor,        // registers[0], for Tensor and Tensor? alike
    Tensors,       // registers, for Tensor[]
    MaybeTensors,  // registers, kNone for None, for Tensor?[]
    Number,        // numbers[0], one that may be another one in the next call
    NumberTensor,  // numbers[0], for a tensor that is a Python number: x + s0
    Integers,      // numbers, for int[], one of which at least may be another in the next call
    Floats,        // the same for float[]
    Scalars,       // the same for Scalar[]: ints, floats, bools and complex numbers side by side
  };
  Kind kind = Constant;
  c10::IValue constant;
  std::vector<Register> registers;
  std::vector<Numeral> numbers = {};
};

/// Where one of an operator's results goes.
struct OperatorResult {
  enum Kind : uint8_t {
    Dropped,  // nothing, or nobody wants it: it is an argument again, undefined, or no tensor
    Tensor,   // registers[0]
    Tensors,  // registers; kNone for those nobody wants
  };
  Kind kind = Dropped;
  std::vector<Register> registers;
};

struct OperatorCall {
  c10::OperatorHandle op;
  std::vector<OperatorArgument> arguments;
  std::vector<OperatorResult> results;
  bool below_autograd = false;  // called below autograd's kernels, as factories are: what it writes counts no version
  bool overwrites = false;      // the program's operator wrote the result over the first argument
};

/// What leaving a mode of the thread puts back.
struct Entered {
  virtual ~Entered() = default;
};

struct Remembered;

/// One call of a tape under way.
struct Run {
  const at::Tensor** tensors;        // by register: an input, a constant, or own
  at::Tensor* own;                   // by register; temporaries, and inputs that are retained
  Owned<>* objects;                  // what Python instructions gave and take besides tensors
  std::unique_ptr<Entered>* modes;   // entered by the tape and not left yet
  bool below_autograd;               // instructions with keys go straight to them
  PyThreadState* released;           // the GIL is not held: how to get it back
  int64_t* numbers = nullptr;        // by number
  Remembered* remembered = nullptr;  // by instructions that remember something
  bool looks = false;                // the run stops where a signal waits
};

struct Instruction;
using Invoke = void (*)(const Instruction&, Run&);

/// What an instruction's invoker prepared once. Never written after that: several threads run it at once.
struct Bound {
  virtual ~Bound() = default;
};

struct Instruction {
  enum Kind : uint8_t { Operator, View, Mode, Number, Python, Fused };
  Kind kind = Operator;
  bool typed = false;  // Operator: called by its C++ signature, not by a stack of boxed values
  uint32_t step = 0;   // of the program
  Invoke invoke = nullptr;
  std::unique_ptr<Bound> bound;
  std::vector<Register> frees;         // temporaries nobody reads afterwards
  std::unique_ptr<OperatorCall> call;  // Operator
  bool below_autograd = false;         // of the call: however the tape runs
  c10::DispatchKeySet keys;            // not empty: these kernels, wherever Run::below_autograd holds
};

struct Place;

/// A program in flat form. Immutable; calls under way share it.
class Tape {
 public:
  ~Tape();
  std::shared_ptr<const Program> program;
  std::vector<Instruction> instructions;
  std::vector<Place> inputs;   // where the program's inputs go
  std::vector<Place> output;   // one place: the program's output
  std::vector<Register> kept;  // registers that the caller empties besides; kNone for none
  bool drops_inputs = false;   // inputs are the frame's, and freed after their last use
  std::vector<std::pair<Register, at::Tensor>> constants;
  std::vector<int64_t> numbers;              // where calls begin; not empty: it was recorded for any sizes
  std::vector<shape::Instruction> at_start;  // computes those that follow from the inputs
  std::vector<shape::Expr> expressions;      // by number; null for what is part of others only
  Register registers = 0, first_temporary = 0;
  int32_t objects = 0, modes = 0, remembered = 0;
  bool below_autograd = false;  // nothing in it needs autograd, autocast or Python keys
  bool releases_gil = false;    // it may run long
  bool has_python = false, has_modes = false;
  std::optional<KernelSettings> settings;  // it holds parts of operators that choose by them
  bool all_direct = false;                 // every operator goes straight to its kernel

  /// Runs the instructions; on an exception `*at` is the index of the one that threw it.
  size_t run(Run& run, size_t* at) const { return this->run(run, at, 0, instructions.size()); }
  /// From one up to another.
  size_t run(Run& run, size_t* at, size_t first, size_t end) const;
  /// One line an instruction: "%3 = aten::add.Tensor(%0, %1, 1) typed, frees %1".
  std::string print() const;
  /// True if it is freed after its last use.
  bool is_freed(Register r) const {
    return r >= first_temporary || (drops_inputs && r < first_temporary - static_cast<Register>(constants.size()));
  }
  /// Throws InternalError if a register is read before it is written, or freed twice or never.
  void verify() const;
};

}  // namespace gramme::native
