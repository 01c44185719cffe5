// Evaluates the rows of continuations.def: who an instruction would call, which operands lead there again, and what it
// pushes for the callee's value.
#include "interp/continuations.h"

#include <algorithm>

namespace gramme::interp {

using namespace value;
using bytecode::Instruction;
using opcode::Op;

namespace {

enum class Then : uint8_t { Push, PushBesideNull, Drop };
enum class Callee : uint8_t { Callable, Attribute, Item, Operator, Comparison };

struct Row {
  Op op;
  Then then;
  Callee callee;
  const char *method, *accessor;
};

constexpr Row kRows[] = {
#define CONTINUATION(op, then, callee, method, accessor) {Op::op, Then::then, Callee::callee, method, accessor},
#include "interp/continuations.def"
#undef CONTINUATION
};

const Row* row_of(Op op) {
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& each) { return each.op == op; });
  return row == std::end(kRows) ? nullptr : row;
}

size_t operand_count(const Instruction& instruction, const Row& row) {
  const int pushes = row.then == Then::Push ? 1 : row.then == Then::PushBesideNull ? 2 : 0;
  return static_cast<size_t>(pushes - opcode::stack_effect(instruction.op, instruction.arg, false));
}

/// The operands of the frame's instruction, the lowest first.
Value* const* operands_on_stack(const Frame& frame, const Row& row) {
  return &frame.stack[frame.stack.size() - operand_count(*frame.current, row)];
}

/// The callable of the frame's instruction, which is a call.
Frame::Called called(const Frame& frame, const Row& row) {
  Value* const* operand = operands_on_stack(frame, row);
  if (cpython::kStack.null_above) return {operand[0], operand[1]->kind != Kind::Null};
  return operand[0]->kind == Kind::Null ? Frame::Called{operand[1], false} : Frame::Called{operand[0], true};
}

/// The callable's value if the frame's instruction is a call.
Value* callable_of(trace::Trace& trace, const Frame& frame, const Row& row) {
  return trace.see(called(frame, row).callable);
}

/// True if calling `callable` calls `callee` first and returns its value.
bool is_called(trace::Trace& trace, Value* callable, const Function* callee) {
  static PyObject* const call_name = intern("__call__");
  Value* seen = trace.see(callable);
  if (auto* method = as<Method>(seen)) return is_called(trace, method->function, callee);
  if (auto* partial = as<Partial>(seen)) return is_called(trace, partial->function, callee);
  if (seen->kind == Kind::Function) return seen == callee;
  return seen->kind == Kind::Object && callee->object &&
         trace.type_lookup(protocol::type_of(seen), call_name) == callee->object;
}

bool is_method(trace::Trace& trace, Value* object, const char* name, const Function* callee) {
  return trace.type_lookup(protocol::type_of(trace.see(object)), intern(name)) == callee->object;
}

bool is_accessor(trace::Trace& trace, Value* object, PyObject* name, const char* part, const Function* callee) {
  PyObject* found = trace.type_lookup(protocol::type_of(trace.see(object)), name);
  if (!found || !Py_IS_TYPE(found, &PyProperty_Type)) return false;
  return take(PyObject_GetAttrString(found, part)).get() == callee->object;
}

/// True if `callee` is the method that an instruction other than a call invokes on its operands.
bool is_answered(trace::Trace& trace, const Frame& frame, const Row& row, const Function* callee) {
  const Instruction& instruction = *frame.current;
  const size_t operands = operand_count(instruction, row);
  Value* const* operand = operands_on_stack(frame, row);
  switch (row.callee) {
    case Callee::Attribute: {
      Value* object = operand[operands - 1];
      return is_accessor(trace, object, frame.name(instruction.arg), row.accessor, callee) ||
             is_method(trace, object, row.method, callee);
    }
    case Callee::Operator:
      return protocol::answers_operator(trace, instruction.arg, operand[0], operand[1], callee->object);
    case Callee::Comparison:
      return protocol::answers_comparison(trace, instruction.arg, operand[0], operand[1], callee->object);
    case Callee::Item:
    case Callee::Callable:
      break;
  }
  Value* container = operand[row.then == Then::Drop && operands == 3 ? 1 : 0];  // below the key
  return is_method(trace, container, row.method, callee);
}

}  // namespace

bool is_call(Op op) { return op == Op::CALL || op == Op::CALL_KW || op == Op::CALL_FUNCTION_EX; }

bool calls_class(trace::Trace& trace, const Frame& frame, const Class* cls) {
  if (!is_call(frame.current->op)) return false;
  const Frame::Called of = called(frame, *row_of(frame.current->op));
  return !of.has_self && trace.see(of.callable) == cls;
}

namespace {

/// CALL_FUNCTION_EX: its operands are callable, NULL, tuple and perhaps dict.
void spread_anew(trace::Trace& trace, const Frame& frame, const Frame& callee, bool constructs, Value** operand,
                 size_t operands) {
  std::vector<Value*> arguments(frame.spread, trace.none());
  if (constructs) {
    operand[cpython::kStack.null_above ? 0 : 1] = callee.function;
    arguments.insert(arguments.begin(), callee.slots[0]);
  }
  operand[2] = trace.tuple(std::move(arguments));
  if (operands < 4 || operand[3]->kind == Kind::Null) return;
  Dict* names = trace.dict();
  for (PyObject* name : frame.spread_names) trace.dict_set(names, trace.constant(name), trace.none());
  operand[3] = names;
}

}  // namespace

std::vector<Value*> operands_anew(trace::Trace& trace, const Frame& frame, const Frame& callee) {
  std::vector<Value*> stack = frame.stack;
  const Op op = frame.current->op;
  if (!is_call(op)) return stack;
  const Row& row = *row_of(op);
  const size_t operands = operand_count(*frame.current, row);
  Value** operand = &stack[stack.size() - operands];
  const bool has_self = called(frame, row).has_self;
  Value* callable = callable_of(trace, frame, row);
  const bool constructs = callable->kind == Kind::Class;
  if (op == Op::CALL_FUNCTION_EX) {
    spread_anew(trace, frame, callee, constructs, operand, operands);
    return stack;
  }
  size_t kept = 2;
  if (has_self) {
    kept = 1;  // the item after the callable is its first argument
  } else if (constructs) {
    operand[0] = callee.function;
    operand[1] = callee.slots[0];
  } else if (auto* method = as<Method>(callable)) {
    operand[0] = method->function;
    kept = 1;
  }
  const size_t names = op == Op::CALL_KW ? 1 : 0;  // the tuple of keyword names is needed as it is
  std::fill(operand + kept, operand + operands - names, trace.none());
  return stack;
}

plan::Gives gives_of(trace::Trace& trace, const Frame& frame, const Function* callee) {
  const Row* row = row_of(frame.current->op);
  if (!row) return plan::Gives::More;
  if (row->callee == Callee::Callable) {
    Value* callable = callable_of(trace, frame, *row);
    if (callable->kind == Kind::Class) return plan::Gives::Instance;
    return is_called(trace, callable, callee) ? plan::Gives::Value : plan::Gives::More;
  }
  return callee->object && is_answered(trace, frame, *row, callee) ? plan::Gives::Value : plan::Gives::More;
}

bool keeps_instance(const bytecode::Code& init) {
  if (init.object()->co_argcount == 0) return false;
  return std::ranges::none_of(init.instructions(), [](const Instruction& each) {
    constexpr Op kWriting[] = {Op::STORE_FAST, Op::DELETE_FAST, Op::LOAD_FAST_AND_CLEAR, Op::MAKE_CELL};
    return each.arg == 0 && std::ranges::find(kWriting, each.op) != std::end(kWriting);
  });
}

/// Nullopt for NotImplemented, after which the instruction asks the other operand.
std::optional<size_t> operands_of(const Instruction& instruction, const Value* value) {
  const Row* row = row_of(instruction.op);
  if (!row) return {};
  const bool asks = row->callee == Callee::Operator || row->callee == Callee::Comparison;
  if (asks && value->object == Py_NotImplemented) return {};
  return operand_count(instruction, *row);
}

void push_value(trace::Trace& trace, Frame& frame, Op op, Value* value) {
  const Then then = row_of(op)->then;
  if (then == Then::PushBesideNull) frame.push_callable(value, trace.null());
  if (then == Then::Push) frame.push(value);
}

}  // namespace gramme::interp
