// The frame of a function being executed symbolically.
#pragma once
#include <vector>

#include "bytecode/code.h"
#include "cpython/stack.h"
#include "trace/trace.h"

namespace gramme::interp {

using value::Value;

/// What a value turned out to be; itself where nobody looked.
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
  std::vector<Value*> initial, initial_stack;  // of a root: what it held when the segment came to it
  std::vector<Value*> unread;                  // of these variables those that nothing was asked of
  size_t pc = 0;                               // index of the next instruction
  const bytecode::Instruction* current = nullptr;
  value::Generator* generator = nullptr;
  value::Dict* locals = nullptr;  // what locals() gave
  Frame* back = nullptr;
  bool root = false;
  /// In the chain that starts at the root: each is called by an instruction that may be carried out anew around it.
  bool chained = false;
  int chain_depth = 0;
  size_t begun = 0;          // index of the instruction begun last at which a frame may be resumed
  int shown_line = 0;        // that logs show
  size_t begun_step = 0;     // its number among those of all frames of the chain
  Value* handled = nullptr;  // the exception that was handled when it began
  int frameless = 0;         // functions under way in place of which models ran, when it began
  bool left = false;         // the segment ends while it is under way
  /// What CALL_FUNCTION_EX took out of its operands.
  size_t spread = 0;
  std::vector<PyObject*> spread_names;
  bool kept = false;                          // by a traceback: not to be used again
  const graph::Position* position = nullptr;  // of the last instruction asked for

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
  /// For a call with so many arguments: what is called, and whether the first argument lies beside it.
  struct Called {
    Value* callable;
    bool has_self;
  };
  Called called(int arguments) {
    Value *lower = peek(arguments + 2), *upper = peek(arguments + 1);
    if (cpython::kStack.null_above) return {lower, upper->kind != value::Kind::Null};
    return lower->kind == value::Kind::Null ? Called{upper, false} : Called{lower, true};
  }
  /// What instructions push that find a method: function and self, or a callable alone.
  void push_method(Value* function, Value* self) {
    push(function);
    push(self);
  }
  void push_callable(Value* callable, Value* null) {
    push(cpython::kStack.null_above ? callable : null);
    push(cpython::kStack.null_above ? null : callable);
  }
  void drop(size_t count) { stack.resize(stack.size() - count); }
  /// True if the current instruction came straight behind the other of this frame's.
  bool follows(const bytecode::Instruction* other) const { return other->next == current->offset; }
  void jump(int unit) { pc = static_cast<size_t>(code->index_of(unit)); }
};

}  // namespace gramme::interp
