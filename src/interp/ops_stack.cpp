// Constants, locals, cells, globals, the stack, jumps and returns.
#include <algorithm>

#include "base/text.h"
#include "cpython/encoding.h"
#include "interp/assertions.h"
#include "interp/closing.h"
#include "interp/ops.h"
#include "trace/dying.h"
#include "trace/literals.h"

namespace gramme::interp {

using namespace value;

Step nothing(Interpreter&, Frame&, int) { return Step::Next; }
Step unsupported(Interpreter&, Frame& frame, int) {
  cannot(Reason::OpcodeUnsupported, opcode::name(frame.current->op));
}

void drop(const Interpreter& interp, const Frame& frame, const Value* value) {
  if (!frame.root || !value || !value->source || !value->object) return;
  const source::Source* holder = value->source;  // an item of a temporary dies with the temporary
  if (holder->kind == source::Kind::Item && holder->base->kind == source::Kind::Stack) holder = holder->base;
  const bool of_frame = holder->kind == source::Kind::Local || holder->kind == source::Kind::Stack;
  if (!of_frame && holder->kind != source::Kind::Exception) return;
  trace::refuse_death(interp.trace, value->object);
}

namespace {
/// Closes a generator whose loop was left and that nothing else refers to: its finally blocks run now.
void close_dropped(Interpreter& interp, Value* value) {
  auto* generator = as<Generator>(value);
  bool suspended = generator && generator->started && generator->frame && !generator->running;
  if (!suspended || !generator->on_stack_alone || !closing_runs_code(interp.trace, *generator->frame)) return;
  try {
    protocol::call_method(interp.trace, generator, intern("close"), {});
  } catch (const UserError&) {
    cannot(Reason::OpaqueCallback, "a generator that raises when it dies");
  }
}
}  // namespace

Step pop_top(Interpreter& interp, Frame& frame, int) {
  drop(interp, frame, frame.peek(1));
  close_dropped(interp, frame.pop());
  return Step::Next;
}
Step push_null(Interpreter& interp, Frame& frame, int) {
  frame.push(interp.trace.null());
  return Step::Next;
}
Step copy(Interpreter&, Frame& frame, int depth) {
  frame.push(frame.peek(depth));
  return Step::Next;
}
Step swap(Interpreter&, Frame& frame, int depth) {
  std::swap(frame.peek(1), frame.peek(depth));
  return Step::Next;
}
Step load_const(Interpreter& interp, Frame& frame, int index) {
  frame.push(interp.trace.literal(frame.constant(index)));
  return Step::Next;
}
Step load_small_int(Interpreter& interp, Frame& frame, int number) {
  frame.push(interp.trace.integer(number));
  return Step::Next;
}
Step load_common_constant(Interpreter& interp, Frame& frame, int index) {
  PyObject* object = cpython::common_constant(index);
  const bool names_it = PyType_Check(object) || PyCFunction_Check(object);
  frame.push(names_it ? interp.trace.pinned(object) : interp.trace.constant(object));
  return Step::Next;
}
Step load_assertion_error(Interpreter& interp, Frame& frame, int) {
  frame.push(interp.trace.pinned(PyExc_AssertionError));
  return Step::Next;
}

// ---- locals

namespace {
[[noreturn]] void unbound(Interpreter& interp, Frame& frame, int slot) {
  interp.guard_unbound(frame, slot);
  bool free = slot >= frame.object()->co_nlocalsplus - frame.object()->co_nfreevars;
  std::string name = utf8_of(frame.variable(slot));
  if (free)
    protocol::raise(
        interp.trace, PyExc_NameError,
        "cannot access free variable '" + name + "' where it is not associated with a value in enclosing scope");
  protocol::raise(interp.trace, PyExc_UnboundLocalError,
                  "cannot access local variable '" + name + "' where it is not associated with a value");
}
Cell* cell_in(Interpreter& interp, Frame& frame, int slot) {
  auto* cell = frame.slots[slot] ? interp.trace.see_as<Cell>(frame.slots[slot]) : nullptr;
  if (!cell) GRAMME_BUG("a cell slot without a cell");
  return cell;
}
}  // namespace

/// Names the value's graph node after the variable, as PyTorch's front end does.
void hint(Interpreter& interp, Frame& frame, int slot, Value* value) {
  if (value->kind == Kind::Tensor) interp.trace.scope().name_after(static_cast<Tensor*>(value), frame.variable(slot));
}

Step load_fast(Interpreter& interp, Frame& frame, int slot) {
  Value* value = frame.slots[slot];
  if (!value) unbound(interp, frame, slot);
  interp.guard_bound(frame, slot);
  frame.push(value);
  return Step::Next;
}
Step store_fast(Interpreter& interp, Frame& frame, int slot) {
  drop(interp, frame, frame.slots[slot]);
  Value* value = frame.pop();
  frame.slots[slot] = value->kind == Kind::Null ? nullptr : value;
  hint(interp, frame, slot, value);
  return Step::Next;
}
/// An unbound variable stays unbound.
Step load_fast_and_clear(Interpreter& interp, Frame& frame, int slot) {
  Value* value = std::exchange(frame.slots[slot], nullptr);
  if (value) {
    interp.guard_bound(frame, slot);
  } else {
    interp.guard_unbound(frame, slot);
  }
  frame.push(value ? value : interp.trace.null());
  return Step::Next;
}
Step delete_fast(Interpreter& interp, Frame& frame, int slot) {
  if (!frame.slots[slot]) unbound(interp, frame, slot);
  interp.guard_bound(frame, slot);
  drop(interp, frame, frame.slots[slot]);
  frame.slots[slot] = nullptr;
  return Step::Next;
}
Step make_cell(Interpreter& interp, Frame& frame, int slot) {
  auto* cell = interp.trace.make<Cell>();
  cell->content = frame.slots[slot];
  frame.slots[slot] = cell;
  return Step::Next;
}
Step copy_free_vars(Interpreter& interp, Frame& frame, int count) {
  interp.trace.describe(frame.function);
  for (int i = 0; i < count; ++i) frame.slots[frame.slots.size() - count + i] = frame.function->closure.at(i);
  return Step::Next;
}
Step load_deref(Interpreter& interp, Frame& frame, int slot) {
  Value* content = interp.trace.cell_content(cell_in(interp, frame, slot), frame.globals);
  if (!content) unbound(interp, frame, slot);
  interp.trace.scope().shown().look_at(content);
  frame.push(content);
  return Step::Next;
}
Step store_deref(Interpreter& interp, Frame& frame, int slot) {
  Value* value = frame.pop();
  interp.trace.store_cell(cell_in(interp, frame, slot), value);
  hint(interp, frame, slot, value);
  return Step::Next;
}
Step delete_deref(Interpreter& interp, Frame& frame, int slot) {
  Cell* cell = cell_in(interp, frame, slot);
  if (!interp.trace.cell_content(cell)) unbound(interp, frame, slot);
  interp.trace.store_cell(cell, nullptr);
  return Step::Next;
}

// ---- globals

Step load_global(Interpreter& interp, Frame& frame, int arg) {
  PyObject* name = frame.name(arg >> 1);
  Value* value = interp.trace.global(frame.globals, name);
  if (!value) value = interp.trace.global(frame.builtins, name);
  if (!value)
    protocol::raise(interp.trace, PyExc_NameError, std::string("name '") + utf8_of(name) + "' is not defined");
  if (arg & 1) {
    frame.push_callable(value, interp.trace.null());
  } else {
    frame.push(value);
  }
  return Step::Next;
}
Step store_global(Interpreter& interp, Frame& frame, int index) {
  interp.trace.store_global(frame.globals, frame.name(index), frame.pop());
  return Step::Next;
}
Step delete_global(Interpreter& interp, Frame& frame, int index) {
  PyObject* name = frame.name(index);
  if (!interp.trace.global(frame.globals, name))
    protocol::raise(interp.trace, PyExc_NameError, std::string("name '") + utf8_of(name) + "' is not defined");
  interp.trace.store_global(frame.globals, name, nullptr);
  return Step::Next;
}

// ---- jumps

namespace {
bool is_none(Interpreter& interp, Value* value) { return interp.trace.see(value) == interp.trace.none(); }
Step jump_if(Frame& frame, bool taken) {
  if (taken) frame.jump(frame.current->target);
  return Step::Next;
}
bool pop_truth(Interpreter& interp, Frame& frame) {
  const std::optional<bool> asserted = asserted_truth(interp.trace, frame, frame.peek(1));
  const bool result = asserted ? *asserted : protocol::truth(interp.trace, frame.peek(1));
  frame.drop(1);
  return result;
}
}  // namespace
Step jump(Interpreter&, Frame& frame, int) { return jump_if(frame, true); }
Step pop_jump_if_true(Interpreter& interp, Frame& frame, int) { return jump_if(frame, pop_truth(interp, frame)); }
Step pop_jump_if_false(Interpreter& interp, Frame& frame, int) { return jump_if(frame, !pop_truth(interp, frame)); }
Step pop_jump_if_none(Interpreter& interp, Frame& frame, int) { return jump_if(frame, is_none(interp, frame.pop())); }
Step pop_jump_if_not_none(Interpreter& interp, Frame& frame, int) {
  return jump_if(frame, !is_none(interp, frame.pop()));
}

Step jump_if_true_or_pop(Interpreter& interp, Frame& frame, int) {
  if (protocol::truth(interp.trace, frame.peek(1))) return jump_if(frame, true);
  return pop_top(interp, frame, 0);
}
Step jump_if_false_or_pop(Interpreter& interp, Frame& frame, int) {
  if (!protocol::truth(interp.trace, frame.peek(1))) return jump_if(frame, true);
  return pop_top(interp, frame, 0);
}

/// True if the frame's end destroys an object that runs code. Weak-reference callbacks count without counting
/// references, because replay holds objects longer than the program.
bool Interpreter::lets_go_of_code(const Frame& frame) const {
  return std::any_of(frame.slots.begin(), frame.slots.end(), [&](const Value* value) {
    if (!value || !value->source || !value->object) return false;
    auto waited_for = [](PyObject* held) { return cpython::has_callback(held); };
    return cpython::any_held(value->object, waited_for) || trace::runs_code(trace, value->object);
  });
}

/// Drops what is left in the frame, in CPython's order, which two finalizers can observe.
Step return_value(Interpreter& interp, Frame& frame, int) {
  int dying = 0;
  for (const Value* value : frame.slots) {
    bool real = frame.root && value && value->source && value->object && value != frame.peek(1);
    if (real && trace::runs_code(interp.trace, value->object) && ++dying > 1) drop(interp, frame, value);
  }
  return Step::Return;
}

}  // namespace gramme::interp
