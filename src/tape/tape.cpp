// The interpreter loop, the verifier of register use, and printing.
#include "tape/tape.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/signals.h"
#include "tape/geometry.h"
#include "tape/memory.h"
#include "tape/modes.h"
#include "tape/registers.h"

namespace gramme::native {

Tape::~Tape() = default;

[[gnu::hot]] size_t Tape::run(Run& run, size_t* at, size_t first, size_t end) const {
  const MemoryScope memory(Served::Large, has_large);
  for (size_t i = first; i < end; ++i) {
    const Instruction& instruction = instructions[i];
    *at = i;
    const bool straight = run.below_autograd && !all_direct && !inference && !instruction.keys.empty();
    if (straight || instruction.below_autograd) {
      at::AutoDispatchBelowADInplaceOrView below;
      instruction.invoke(instruction, run);
    } else {
      instruction.invoke(instruction, run);
    }
    for (Register r : instruction.frees) run.own[r].reset();
    if (run.looks && signals_wait()) [[unlikely]]
      return i + 1;
  }
  return end;
}

// ---- verifying

namespace {

class Verifier {
 public:
  explicit Verifier(const Tape& tape) : tape_(tape), state_(static_cast<size_t>(tape.registers), Unwritten) {
    for (Register r = 0; r < tape.first_temporary; ++r) state(r) = Written;
    for (const shape::Expr number : tape.expressions) computed_.push_back(number && shape::is_constant(number));
    for (const Place& input : tape.inputs) each_number(input, [this](NumberId number) { compute(number); });
    compute(tape.at_start);
  }

  void run() {
    for (at_ = 0; at_ < tape_.instructions.size(); ++at_) {
      const Instruction& instruction = tape_.instructions[at_];
      if (!instruction.invoke) fail("cannot be run", kNone);
      each_read(instruction, [this](Register r) { expect(r, Written, "reads what is not there"); });
      each_number(instruction, [this](NumberId number) { expect_number(number); });
      if (instruction.kind == Instruction::Number) compute(computation_of(instruction));
      each_write(instruction, [this](Register r) {
        if (r < tape_.first_temporary) fail("writes an input or constant", r);
        state(r) = Written;
      });
      for (Register r : instruction.frees) {
        expect(r, Written, "frees what is not there");
        state(r) = Freed;
      }
    }
    each_number(tape_.output[0], [this](NumberId number) { expect_number(number); });
    each_left(tape_, [this](Register r) {
      expect(r, Written, "the output is not there");
      if (r >= tape_.first_temporary) wanted_.push_back(r);
    });
    for (Register r = tape_.first_temporary; r < tape_.registers; ++r)
      if (state(r) == Written && std::find(wanted_.begin(), wanted_.end(), r) == wanted_.end())
        fail("a register is never freed", r);
  }

 private:
  enum State : uint8_t { Unwritten, Written, Freed };

  State& state(Register r) {
    if (r < 0 || r >= tape_.registers) fail("no such register", r);
    return state_[static_cast<size_t>(r)];
  }
  void expect(Register r, State wanted, const char* otherwise) {
    if (state(r) != wanted) fail(otherwise, r);
  }
  void compute(NumberId number) {
    if (number < 0 || static_cast<size_t>(number) >= computed_.size()) fail("no such number", number);
    if (computed_[static_cast<size_t>(number)]) fail("computes a number again", number);
    computed_[static_cast<size_t>(number)] = true;
  }
  void compute(std::span<const shape::Instruction> code) {
    for (const shape::Instruction& at : code) {
      expect_number(static_cast<NumberId>(at.a));
      expect_number(static_cast<NumberId>(at.b));
      if (!shape::is_requirement(at.operation)) compute(static_cast<NumberId>(at.target));
    }
  }
  void compute(const Computation& computation) {
    if (computation.of != kNone) compute(computation.size);
    compute(computation.code);
  }
  void expect_number(NumberId number) const {
    const bool known = number >= 0 && static_cast<size_t>(number) < computed_.size();
    if (!known || !computed_[static_cast<size_t>(number)]) fail("a number is not there", number);
  }
  [[noreturn]] void fail(const char* what, Register r) const {
    GRAMME_BUG("a tape is wrong at instruction " + std::to_string(at_) + ": " + what + " (%" + std::to_string(r) +
               ")\n" + tape_.print());
  }

  const Tape& tape_;
  std::vector<State> state_;
  std::vector<bool> computed_;  // by number
  std::vector<Register> wanted_;
  size_t at_ = 0;
};

// ---- printing

void print_registers(std::ostream& out, const std::vector<Register>& registers) {
  for (size_t i = 0; i < registers.size(); ++i) {
    out << (i ? ", " : "");
    registers[i] == kNone ? out << "None" : out << "%" << registers[i];
  }
}

std::string text_of(const Tape& tape, NumberId number) {
  return shape::print(tape.expressions[static_cast<size_t>(number)]);
}

void print_numeral(std::ostream& out, const Tape& tape, const Numeral& number) {
  switch (number.kind) {
    case Numeral::Constant:
      out << number.constant;
      return;
    case Numeral::Whole:
    case Numeral::Float:
      out << text_of(tape, number.index);
      return;
    case Numeral::Object:
      out << "float " << number.index;
      return;
  }
}

void print_numbers(std::ostream& out, const Tape& tape, const std::vector<Numeral>& numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) print_numeral(out << (i ? ", " : ""), tape, numbers[i]);
}

void print_argument(std::ostream& out, const Tape& tape, const OperatorArgument& argument) {
  switch (argument.kind) {
    case OperatorArgument::Constant:
      out << argument.constant;
      return;
    case OperatorArgument::Tensor:
      print_registers(out, argument.registers);
      return;
    case OperatorArgument::Tensors:
    case OperatorArgument::MaybeTensors:
      out << "[";
      print_registers(out, argument.registers);
      out << "]";
      return;
    case OperatorArgument::Number:
    case OperatorArgument::NumberTensor:
      print_numbers(out, tape, argument.numbers);
      return;
    case OperatorArgument::Integers:
    case OperatorArgument::Floats:
    case OperatorArgument::Scalars:
      out << "[";
      print_numbers(out, tape, argument.numbers);
      out << "]";
      return;
  }
}

void print_operator(std::ostream& out, const Tape& tape, const Instruction& instruction) {
  out << c10::toString(instruction.call->op.operator_name()) << "(";
  bool first = true;
  for (const OperatorArgument& argument : instruction.call->arguments) {
    out << (first ? "" : ", ");
    first = false;
    print_argument(out, tape, argument);
  }
  out << ")" << (instruction.typed ? "" : " boxed") << (instruction.keys.empty() ? "" : " direct")
      << (instruction.bound ? instruction.bound->note(tape.below_autograd) : "");
}

void print_list(std::ostream& out, c10::ArrayRef<int64_t> values) {
  out << "[";
  for (size_t i = 0; i < values.size(); ++i) out << (i ? ", " : "") << values[i];
  out << "]";
}

void print_view(std::ostream& out, const Tape& tape, const View& view) {
  out << "view(%" << view.source << ", ";
  if (!view.steps.empty()) {
    for (size_t i = 0; i < view.steps.size(); ++i) out << (i ? ", " : "") << native::print(view.steps[i], tape);
    out << ")" << (view.by_operators ? " by operators" : "");
    return;
  }
  print_list(out, view.sizes);
  out << ", ";
  print_list(out, view.strides);
  out << ", " << view.offset << ")";
}

/// Prints a computation: "s4 = size(%0, 1)".
void print_computation(std::ostream& out, const Tape& tape, const Computation& computation) {
  out << text_of(tape, computation.size) << " = size(%" << computation.of << ", " << computation.dimension << ")";
}

/// Prints a place's tensors and numbers, in order.
void print_place(std::ostream& out, const Tape& tape, const Place& place, bool& first) {
  if (place.kind == Place::Tensor || is_number(place)) out << (std::exchange(first, false) ? "" : ", ");
  if (place.kind == Place::Tensor) print_registers(out, {place.index});
  if (is_number(place)) out << text_of(tape, place.index);
  for (const Place& item : place.items) print_place(out, tape, item, first);
}

void print_frees(std::ostream& out, const Instruction& instruction) {
  if (!instruction.frees.empty()) {
    out << "; frees ";
    print_registers(out, instruction.frees);
  }
  out << "\n";
}

void print_instruction(std::ostream& out, const Tape& tape, const Instruction& instruction);

void print_fused(std::ostream& out, const Tape& tape, const Instruction& instruction) {
  std::vector<Register> results;
  for (const Fused::Output& output : fused_of(instruction).outputs) results.push_back(output.target);
  print_registers(out, results);
  out << (results.empty() ? "as one" : " = as one");
  print_frees(out, instruction);
  for (const Instruction& part : fused_of(instruction).parts) print_instruction(out << "  ", tape, part);
}

void print_instruction(std::ostream& out, const Tape& tape, const Instruction& instruction) {
  if (instruction.kind == Instruction::Fused) return print_fused(out, tape, instruction);
  // Arithmetic is printed where it is used.
  if (instruction.kind == Instruction::Number && computation_of(instruction).of == kNone) return;
  std::vector<Register> written;
  each_write(instruction, [&](Register r) { written.push_back(r); });
  print_registers(out, written);
  if (!written.empty()) out << " = ";
  if (instruction.kind == Instruction::Operator) print_operator(out, tape, instruction);
  if (instruction.kind == Instruction::View) print_view(out, tape, view_of(instruction));
  if (instruction.kind == Instruction::Number) print_computation(out, tape, computation_of(instruction));
  if (instruction.kind == Instruction::Mode) out << native::print(mode_of(instruction));
  if (instruction.kind == Instruction::Python)
    out << "python " << tape.program->steps[instruction.step].name << ": " << python_call(instruction).why;
  print_frees(out, instruction);
}

}  // namespace

size_t Tape::given() const { return inputs.size() - casts.size(); }

void Tape::verify() const { Verifier(*this).run(); }

std::string Tape::print() const {
  std::ostringstream out;
  out << "inputs %0 to %" << first_temporary - static_cast<Register>(constants.size()) - 1 << ", " << constants.size()
      << " constants, " << registers - first_temporary << " temporaries\n";
  for (const Instruction& instruction : instructions) print_instruction(out, *this, instruction);
  out << "return ";
  bool first = true;
  print_place(out, *this, output[0], first);
  out << "\n";
  return out.str();
}

}  // namespace gramme::native
