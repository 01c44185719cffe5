#include "interp/continuations.h"

#include <algorithm>

namespace gramme::interp {

using namespace value;
using bytecode::Instruction;
using bytecode::Op;

namespace {

enum class Then : uint8_t { Push, PushBehindNull, Drop };
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
  const int pushes = row.then == Then::Push ? 1 : row.then == Then::PushBehindNull ? 2 : 0;
  return static_cast<size_t>(pushes - bytecode::stack_effect(instruction.op, instruction.arg, false));
}

/// Of the frame's instruction, the lowest first.
Value* const* operands_on_stack(const Frame& frame, const Row& row) {
  return &frame.stack[frame.stack.size() - operand_count(*frame.current, row)];
}

/// What the frame's instruction calls, if it is a call.
Value* callable_of(trace::Trace& trace, const Frame& frame, const Row& row) {
  Value* const* operand = operands_on_stack(frame, row);
  return trace.see(operand[operand[0]->kind == Kind::Null]);
}

/// Is it what calling the value calls first, and gives?
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

/// Is it what answers for the operands of an instruction that is no call?
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

bool is_call(Op op) { return op == Op::CALL || op == Op::CALL_FUNCTION_EX; }

bool calls_class(trace::Trace& trace, const Frame& frame, const Class* cls) {
  if (!is_call(frame.current->op)) return false;
  Value* const* operand = operands_on_stack(frame, *row_of(frame.current->op));
  return operand[0]->kind == Kind::Null && trace.see(operand[1]) == cls;
}

std::vector<Value*> operands_anew(trace::Trace& trace, const Frame& frame, const Frame& callee) {
  std::vector<Value*> stack = frame.stack;
  if (!is_call(frame.current->op)) return stack;
  const size_t operands = operand_count(*frame.current, *row_of(frame.current->op));
  Value** operand = &stack[stack.size() - operands];
  const bool constructs = callable_of(trace, frame, *row_of(frame.current->op))->kind == Kind::Class;
  if (frame.current->op == Op::CALL_FUNCTION_EX) {
    std::vector<Value*> arguments(frame.spread, trace.none());
    if (constructs) {
      operand[1] = callee.function;
      arguments.insert(arguments.begin(), callee.slots[0]);
    }
    operand[2] = trace.tuple(std::move(arguments));
    if (operands < 4) return stack;
    Dict* names = trace.dict();
    for (PyObject* name : frame.spread_names) trace.dict_set(names, trace.constant(name), trace.none());
    operand[3] = names;
    return stack;
  }
  size_t kept = 2;
  if (operand[0]->kind != Kind::Null) {
    kept = 1;  // what follows the callable is its first argument
  } else if (constructs) {
    operand[0] = callee.function;
    operand[1] = callee.slots[0];
  } else if (auto* method = as<Method>(trace.see(operand[1]))) {
    operand[0] = method->function;
    kept = 1;
  }
  std::fill(operand + kept, operand + operands, trace.none());
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
    return each.arg == 0 && (each.op == Op::STORE_FAST || each.op == Op::DELETE_FAST || each.op == Op::MAKE_CELL);
  });
}

/// NotImplemented asks the other operand.
std::optional<size_t> operands_of(const Instruction& instruction, const Value* value) {
  const Row* row = row_of(instruction.op);
  if (!row) return {};
  const bool asks = row->callee == Callee::Operator || row->callee == Callee::Comparison;
  if (asks && value->object == Py_NotImplemented) return {};
  return operand_count(instruction, *row);
}

void push_value(trace::Trace& trace, Frame& frame, Op op, Value* value) {
  const Then then = row_of(op)->then;
  if (then == Then::PushBehindNull) frame.push(trace.null());
  if (then != Then::Drop) frame.push(value);
}

}  // namespace gramme::interp
