// A code object decoded once: instructions with their operands, jump targets, exception handlers and lines.
#pragma once
#include <Python.h>

#include <cstdint>
#include <vector>

#include "opcode/op.h"

namespace gramme::cpython {
struct Decoded;
}

namespace gramme::bytecode {

using opcode::Op;

/// One instruction of gramme's vocabulary (src/opcode). A CPython instruction, with the prefixes that belong to it
/// (cpython::Decoded), becomes one of these or two at the same place; a segment may start only at the first.
struct Instruction {
  Op op;
  bool resumable;   // the op's kResumable, and the first in its place
  bool enterable;   // the op's kEnterable, and the first in its place
  bool wants_bool;  // CPython's evaluator expects a bool on top: whoever hands the frame over converts it
  int32_t arg;
  int32_t offset;  // code unit where it starts; the only place to resume at
  int32_t at;      // code unit of the instruction itself: where its frame stands while it runs
  int32_t next;    // code unit of the next
  int32_t target;  // code unit of a jump's destination, or -1
  int32_t names;   // keyword names of a call: index into co_consts, or -1
};

struct Handler {
  int32_t target;  // code unit
  int32_t depth;   // stack depth to pop to
  bool lasti;      // push the index of the raising instruction first
};

class Code {
 public:
  explicit Code(PyCodeObject* code);
  /// All instructions in order.
  const std::vector<Instruction>& instructions() const { return instructions_; }
  /// Index into instructions() of the one that starts at this code unit, or at which a frame with this position is; the
  /// first of two at the same place. -1 in the middle of an instruction.
  int index_of(int unit) const { return index_of_[unit]; }
  /// The handler that covers code unit `at`, or null.
  const Handler* handler(int at) const;
  int line(int unit) const;
  int max_stack() const;
  PyCodeObject* object() const { return code_; }

 private:
  void add(const cpython::Decoded& decoded);
  struct Range {
    int32_t start, end;
    Handler handler;
  };
  PyCodeObject* code_;  // borrowed: the cache that owns this holds the code object
  std::vector<Instruction> instructions_;
  std::vector<int32_t> index_of_;
  std::vector<Range> handlers_;
  mutable std::vector<int> lines_;  // by code unit, once they are asked for often
  mutable int line_requests_ = 0;
};

/// The decoded form; made at the first request, kept with the code object for the life of the process.
const Code& decode(PyCodeObject* code);

}  // namespace gramme::bytecode
