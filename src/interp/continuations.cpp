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

}  // namespace

bool is_call(Op op) { return op == Op::CALL || op == Op::CALL_FUNCTION_EX; }

std::vector<Value*> operands_anew(trace::Trace& trace, const Frame& frame) {
  std::vector<Value*> stack = frame.stack;
  if (!is_call(frame.current->op)) return stack;
  const size_t operands = operand_count(*frame.current, *row_of(frame.current->op));
  Value** operand = &stack[stack.size() - operands];
  if (frame.current->op == Op::CALL_FUNCTION_EX) {
    operand[2] = trace.tuple(std::vector<Value*>(frame.spread, trace.none()));
    if (operands < 4) return stack;
    Dict* names = trace.dict();
    for (PyObject* name : frame.spread_names) trace.dict_set(names, trace.constant(name), trace.none());
    operand[3] = names;
    return stack;
  }
  size_t kept = 2;
  if (operand[0]->kind != Kind::Null) {
    kept = 1;  // what follows the callable is its first argument
  } else if (auto* method = as<Method>(trace.see(operand[1]))) {
    operand[0] = method->function;
    kept = 1;
  }
  std::fill(operand + kept, operand + operands, trace.none());
  return stack;
}

bool gives_value(trace::Trace& trace, const Frame& frame, const Function* callee) {
  const Instruction& instruction = *frame.current;
  const Row* row = row_of(instruction.op);
  if (!row) return false;
  const size_t operands = operand_count(instruction, *row);
  Value* const* operand = &frame.stack[frame.stack.size() - operands];
  if (row->callee == Callee::Callable) return is_called(trace, operand[operand[0]->kind == Kind::Null], callee);
  if (!callee->object) return false;
  switch (row->callee) {
    case Callee::Attribute: {
      Value* object = operand[operands - 1];
      return is_accessor(trace, object, frame.name(instruction.arg), row->accessor, callee) ||
             is_method(trace, object, row->method, callee);
    }
    case Callee::Operator:
      return protocol::answers_operator(trace, instruction.arg, operand[0], operand[1], callee->object);
    case Callee::Comparison:
      return protocol::answers_comparison(trace, instruction.arg, operand[0], operand[1], callee->object);
    case Callee::Item:
    case Callee::Callable:
      break;
  }
  Value* container = operand[row->then == Then::Drop && operands == 3 ? 1 : 0];  // below the key
  return is_method(trace, container, row->method, callee);
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
