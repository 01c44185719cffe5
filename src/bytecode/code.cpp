#include "bytecode/code.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/integer.h"
#include "base/ref.h"
#include "cpython/code_object.h"

namespace gramme::bytecode {
namespace {

struct Row {
  const char* name;
  Operand operand;
  uint32_t properties;
  const char* text;
};
constexpr Row kRows[] = {
#define OP(name, operand, pops, pushes, properties, since, until, text) {#name, Operand::operand, properties, text},
#include "bytecode/opcodes.def"
#undef OP
};
constexpr int kOpCount = static_cast<int>(std::size(kRows));
static_assert(kOpCount < 256);

const Row& row(Op op) { return kRows[static_cast<int>(op)]; }

/// CPython's numbers to ours, by name; -1 where CPython has no opcode.
struct Numbering {
  int16_t ops[256];
  Numbering() {
    for (int raw = 0; raw < 256; ++raw) ops[raw] = static_cast<int16_t>(find(cpython::opcode_name(raw)));
  }
  static int find(const char* name) {
    for (int i = 0; name && i < kOpCount; ++i)
      if (!std::strcmp(kRows[i].name, name)) return i;
    return -1;
  }
};

Op op_of(uint8_t raw) {
  static const Numbering numbering;
  int op = numbering.ops[raw];
  if (op < 0) GRAMME_BUG("no row in opcodes.def for opcode " + std::to_string(raw));
  return static_cast<Op>(op);
}

int jump_target(const Instruction& instruction) {
  switch (operand(instruction.op)) {
    case Operand::JumpForward:
      return instruction.next + instruction.arg;
    case Operand::JumpBackward:
      return instruction.next - instruction.arg;
    case Operand::None:
    case Operand::Raw:
    case Operand::Const:
    case Operand::Name:
    case Operand::GlobalName:
    case Operand::Local:
    case Operand::Count:
    case Operand::Depth:
    case Operand::Flags:
    case Operand::Compare:
    case Operand::BinaryOp:
    case Operand::Invert:
    case Operand::Unpack:
      break;
  }
  return -1;
}

/// Decodes the instruction that starts at `unit`, its EXTENDED_ARGs included.
Instruction decode_at(PyCodeObject* code, int unit) {
  Instruction instruction{};
  instruction.offset = unit;
  uint32_t arg = 0;
  for (;; ++unit) {
    cpython::RawUnit raw = cpython::raw_unit(code, unit);
    instruction.op = op_of(raw.opcode);
    arg = arg << 8 | raw.arg;
    if (instruction.op != Op::EXTENDED_ARG) {
      instruction.next = unit + 1 + cpython::cache_units(raw.opcode);
      break;
    }
  }
  instruction.at = unit;
  instruction.arg = static_cast<int32_t>(arg);
  instruction.target = jump_target(instruction);
  return instruction;
}

}  // namespace

Code::Code(PyCodeObject* code) : code_(code), index_of_(cpython::unit_count(code), -1) {
  for (int unit = 0; unit < cpython::unit_count(code);) {
    Instruction instruction = decode_at(code, unit);
    bool names_pending = !instructions_.empty() && instructions_.back().op == Op::KW_NAMES;
    instruction.resumable = (properties(instruction.op) & kResumable) && !names_pending;
    instruction.enterable = properties(instruction.op) & kEnterable;
    index_of_[unit] = static_cast<int32_t>(instructions_.size());
    index_of_[instruction.at] = index_of_[unit];
    instructions_.push_back(instruction);
    unit = instruction.next;
  }
  cpython::ExceptionTable table(code);
  for (cpython::ExceptionTable::Entry entry; table.next(&entry);)
    handlers_.push_back({entry.start, entry.end, {entry.target, entry.depth, entry.lasti}});
}

const Handler* Code::handler(int at) const {
  auto after = std::upper_bound(handlers_.begin(), handlers_.end(), at,
                                [](int unit, const Range& range) { return unit < range.start; });
  if (after == handlers_.begin()) return nullptr;
  const Range& range = *(after - 1);
  return at < range.end ? &range.handler : nullptr;
}

/// CPython looks through the table of lines from its start: a long function with many breaks asks often.
int Code::line(int unit) const {
  constexpr int kSize = kCodeUnit, kOften = 64;
  if (lines_.empty() && (++line_requests_ < kOften || PyErr_Occurred())) return PyCode_Addr2Line(code_, unit * kSize);
  if (lines_.empty()) {
    lines_.assign(index_of_.size(), -1);
    Owned<> ranges = take(PyObject_CallMethod(reinterpret_cast<PyObject*>(code_), "co_lines", nullptr));
    while (auto range = Owned<>::steal(PyIter_Next(ranges.get()))) {
      PyObject* line = PyTuple_GET_ITEM(range.get(), 2);
      if (line == Py_None) continue;
      auto from = lines_.begin() + PyLong_AsLong(PyTuple_GET_ITEM(range.get(), 0)) / kSize;
      auto to = lines_.begin() + PyLong_AsLong(PyTuple_GET_ITEM(range.get(), 1)) / kSize;
      std::fill(from, to, static_cast<int>(PyLong_AsLong(line)));
    }
    PyErr_Clear();
  }
  return unit < 0 ? code_->co_firstlineno : lines_.at(static_cast<size_t>(unit));
}

int Code::max_stack() const { return code_->co_stacksize; }

const Code& decode(PyCodeObject* code) {
  if (void* known = cpython::code_data(code)) return *static_cast<const Code*>(known);
  auto* decoded = new Code(code);
  cpython::set_code_data(code, decoded, [](void* data) { delete static_cast<Code*>(data); });
  return *decoded;
}

const char* name(Op op) { return row(op).name; }
uint32_t properties(Op op) { return row(op).properties; }
Operand operand(Op op) { return row(op).operand; }
const char* text(Op op) { return row(op).text; }

int stack_effect(Op op, int arg, bool jumped) {
  static_cast<void>(jumped);
  switch (op) {
#define OP(name, operand, pops, pushes, properties, since, until, text) \
  case Op::name:                                                        \
    return (pushes) - (pops);
#include "bytecode/opcodes.def"
#undef OP
  }
  return 0;
}

}  // namespace gramme::bytecode
