// The frame of a function being executed symbolically.
#pragma once
#include <vector>

#include "bytecode/code.h"
#include "cpython/stack.h"
#include "trace/trace.h"

namespace gramme::interp {

using value::Value;

/// The value behind a Lazy that was looked into; other values unchanged.
inline const Value* looked_into(const Value* value) {
  while (value->kind == value::Kind::Lazy && static_cast<const value::Lazy*>(value)->target)
    value = static_cast<const value::Lazy*>(value)->target;
  return value;
}

struct Frame {
  const bytecode::Code* code = nullptr;
  value::Function* function = nullptr;
  value::Namespace *globals = nullptr, *builtins = nullptr;
  std::vector<Value*> slots;  // localsplus; null where unbound
  std::vector<Value*> stack;
  std::vector<Value*> initial, initial_stack;  // root only: content at the segment's start
  std::vector<Value*> unread;                  // values of `initial` not used yet
  size_t pc = 0;                               // index of the next instruction
  const bytecode::Instruction* current = nullptr;
  value::Generator* generator = nullptr;
  value::Dict* locals = nullptr;  // the dict that locals() returned
  Frame* back = nullptr;
  bool root = false;
  /// Part of the chain that starts at the root: every frame was called by an instruction that can be carried out again.
  bool chained = false;
  int chain_depth = 0;
  size_t begun = 0;          // index of the last resumable instruction that began
  int shown_line = 0;        // last line reported to listeners
  size_t begun_step = 0;     // its step number in the chain
  Value* handled = nullptr;  // the exception that was handled when it began
  int frameless = 0;         // running modelled functions when it began
  bool left = false;         // the segment ends inside it
  /// The number of arguments that CALL_FUNCTION_EX unpacked.
  size_t spread = 0;
  std::vector<PyObject*> spread_names;
  bool kept = false;                          // referred to by a traceback: do not reuse
  const graph::Position* position = nullptr;  // cached for the last instruction

  PyCodeObject* object() const { return code->object(); }
  PyObject* name(int index) const { return PyTuple_GET_ITEM(object()->co_names, index); }
  PyObject* constant(int index) const { return PyTuple_GET_ITEM(object()->co_consts, index); }
  PyObject* variable(int slot) const { return PyTuple_GET_ITEM(object()->co_localsplusnames, slot); }

  void push(Value* value) { stack.push_back(value); }
  Value* pop() {
    Value* top = stack.back();
    stack.pop_back();
    return top;
  }
  /// peek(1) is the top.
  Value*& peek(int depth) { return stack[stack.size() - depth]; }
  /// For a call with `count` arguments: the callable, and whether self lies beside it.
  struct Called {
    Value* callable;
    bool has_self;
  };
  Called called(int arguments) {
    Value *lower = peek(arguments + 2), *upper = peek(arguments + 1);
    if (cpython::kStack.null_above) return {lower, upper->kind != value::Kind::Null};
    return lower->kind == value::Kind::Null ? Called{upper, false} : Called{lower, true};
  }
  /// Pushes the result of a method lookup: function and self, or a callable and NULL.
  void push_method(Value* function, Value* self) {
    push(function);
    push(self);
  }
  void push_callable(Value* callable, Value* null) {
    push(cpython::kStack.null_above ? callable : null);
    push(cpython::kStack.null_above ? null : callable);
  }
  void drop(size_t count) { stack.resize(stack.size() - count); }
  /// True if the current instruction directly follows `other`.
  bool follows(const bytecode::Instruction* other) const { return other->next == current->offset; }
  void jump(int unit) { pc = static_cast<size_t>(code->index_of(unit)); }
};

}  // namespace gramme::interp
