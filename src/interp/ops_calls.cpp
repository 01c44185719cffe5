// Calls, functions, iteration and generators.
#include <algorithm>
#include <span>

#include "cpython/iterators.h"
#include "interp/ops.h"
#include "protocol/iterate.h"
#include "trace/dying.h"

namespace gramme::interp {

using namespace value;
using trace::Args;

namespace {
/// Calls the operands. They stay on the stack until the callee returns, because the segment may end in it. The last
/// arguments are the named ones; `above` items lie above the arguments.
Value* call_operands(Interpreter& interp, Frame& frame, int count, std::span<PyObject* const> names, int above = 0) {
  const auto [callable, has_self] = frame.called(count + above);
  const size_t total = static_cast<size_t>(count) + has_self;
  Value** values = frame.stack.data() + frame.stack.size() - total - above;
  const Args args{values, total - names.size(), names.data(), names.size()};
  return protocol::call(interp.trace, callable, args);
}
}  // namespace

Step call(Interpreter& interp, Frame& frame, int count) {
  PyObject* names = frame.current->names < 0 ? nullptr : frame.constant(frame.current->names);
  const size_t named = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
  Value* result = call_operands(interp, frame, count, {named ? &PyTuple_GET_ITEM(names, 0) : nullptr, named});
  frame.drop(static_cast<size_t>(count) + 2);
  frame.push(result);
  return Step::Next;
}

Step call_kw(Interpreter& interp, Frame& frame, int count) {
  std::vector<PyObject*> names;
  for (Value* name : protocol::items_of(interp.trace, frame.peek(1))) names.push_back(interp.trace.constant_of(name));
  Value* result = call_operands(interp, frame, count, names, 1);
  frame.drop(static_cast<size_t>(count) + 3);
  frame.push(result);
  return Step::Next;
}

namespace {
/// The items of `*iterable` in a call; raises the instruction's own message if it is not iterable.
std::vector<Value*> spread(trace::Trace& trace, Value* iterable) {
  try {
    return protocol::items_of_tuple(trace, iterable);
  } catch (const UserError&) {
    cannot(Reason::ArgumentKind, "arguments that cannot be iterated over");
  }
}
}  // namespace

Step call_function_ex(Interpreter& interp, Frame& frame, int flags) {
  trace::Trace& trace = interp.trace;
  Attributes keywords;
  const int mappings = flags & 1;
  if (mappings && frame.peek(1)->kind != Kind::Null) {
    auto* mapping = as<Dict>(protocol::payload_of(trace, frame.peek(1)));
    if (!mapping) cannot(Reason::ArgumentKind, "** of a user's mapping");
    trace.load(mapping);
    mapping->entries.each([&](Table::Entry& entry) {
      PyObject* name = trace.constant_of(entry.key);
      if (!name || !PyUnicode_Check(name)) cannot(Reason::ArgumentKind, "keywords that are not str");
      keywords.push_back({name, entry.value});
    });
  }
  std::vector<Value*> positional = spread(trace, frame.peek(1 + mappings));
  frame.spread = positional.size();
  frame.spread_names.clear();
  for (const Attribute& keyword : keywords) frame.spread_names.push_back(keyword.name);
  Value* callee = frame.called(1 + mappings).callable;
  interp.may_enter(frame);  // only now: otherwise the arguments' own __iter__ would be called again
  Value* result = protocol::call_with(trace, callee, positional, keywords);
  frame.drop(static_cast<size_t>(3 + mappings));  // with the NULL beside the callable
  frame.push(result);
  return Step::Next;
}

namespace {
void set_closure(trace::Trace& trace, Function* function, Value* cells) {
  for (Value* cell : trace.see_as<Tuple>(cells)->items) function->closure.push_back(trace.see(cell));
}
}  // namespace

Step make_function(Interpreter& interp, Frame& frame, int flags) {
  auto* function = interp.trace.make<Function>();
  function->code = reinterpret_cast<PyCodeObject*>(interp.trace.constant_of(frame.pop()));
  function->name = function->code->co_name;
  function->qualname = function->code->co_qualname;
  function->globals = frame.globals;
  function->described = true;
  if (flags & 8) set_closure(interp.trace, function, frame.pop());
  if (flags & 4) function->annotations = frame.pop();
  if (flags & 2) function->kwdefaults = frame.pop();
  if (flags & 1) function->defaults = frame.pop();
  frame.push(function);
  return Step::Next;
}

/// If the segment began after MAKE_FUNCTION, the function is a real object that is still incomplete.
Step set_function_attribute(Interpreter& interp, Frame& frame, int which) {
  auto* function = interp.trace.see_as<Function>(frame.peek(1));
  if (function->existing()) cannot(Reason::MutationUnsupported, "a function that is being made");
  frame.pop();
  Value* value = frame.pop();
  switch (which) {
    case 1:
      function->defaults = value;
      break;
    case 2:
      function->kwdefaults = value;
      break;
    case 4:
      function->annotations = value;
      break;
    case 8:
      set_closure(interp.trace, function, value);
      break;
    default:
      function->annotate = value;
  }
  frame.push(function);
  return Step::Next;
}

Step load_build_class(Interpreter& interp, Frame& frame, int) {
  static PyObject* const name = intern("__build_class__");
  frame.push(interp.trace.global(frame.builtins, name));
  return Step::Next;
}

namespace {
const bytecode::Instruction* made_by_call(const Generator& generator) {
  return static_cast<const bytecode::Instruction*>(generator.made_by_call);
}
}  // namespace

/// Marks a generator as owned by the loop if the preceding call, or the object's __iter__, has just made it.
Step get_iter(Interpreter& interp, Frame& frame, int) {
  Value* iterable = interp.trace.see(frame.peek(1));
  Value* iterator = protocol::get_iterator(interp.trace, iterable);
  auto* generator = as<Generator>(iterator);
  if (generator && !generator->started && generator->maker == &frame)
    generator->on_stack_alone =
        iterator == iterable ? frame.follows(made_by_call(*generator)) : made_by_call(*generator) == frame.current;
  frame.peek(1) = iterator;
  return Step::Next;
}

namespace {
/// True if exhausting the iterator, which drops its container, runs code.
bool ends_with_code(const trace::Values& values, Iterator* iterator) {
  PyObject** through = cpython::iterated_address(iterator->object);
  const bool dies = through && *through && Py_REFCNT(*through) <= 1 + values.references_to(*through);
  if (dies && trace::runs_code(values, *through)) return true;
  return std::any_of(iterator->parts.begin(), iterator->parts.end(), [&](Value* part) {
    auto* inner = as<Iterator>(part);
    return inner && ends_with_code(values, inner);
  });
}
}  // namespace

/// Takes one item of an existing iterator. A segment in which an instruction takes several items would fit few
/// positions of the loop, so it ends before the first one. After one item it may reach the end.
Value* Interpreter::advance(Iterator* iterator) {
  auto [step, first] = advanced_.try_emplace({iterator, frame_->current}, resumable_step_);
  if (!first && !trace.is_at_end(iterator))
    trace.progress.stop_at(step->second, Reason::IteratorLive, Py_TYPE(iterator->object)->tp_name);
  advance_step_ = std::min(advance_step_, resumable_step_);
  Value* item = trace.next_of_live(iterator);
  ended_iterator_ |= !item;
  if (!item && ends_with_code(trace, iterator))
    cannot(Reason::CallSkipped, "the end of what objects with finalizers are in");
  return item;
}

Step for_iter(Interpreter& interp, Frame& frame, int) {
  if (Value* item = protocol::next(interp.trace, frame.peek(1))) {
    frame.push(item);
    return Step::Next;
  }
  frame.pop();
  frame.jump(frame.current->target);
  return Step::Next;
}

Step end_send(Interpreter& interp, Frame& frame, int) {
  drop(interp, frame, frame.peek(2));
  frame.peek(2) = frame.peek(1);
  frame.drop(1);
  return Step::Next;
}

// ---- generators

Step return_generator(Interpreter& interp, Frame& frame, int) {
  if (frame.root || !(frame.object()->co_flags & CO_GENERATOR)) cannot(Reason::GeneratorRoot);
  auto* generator = interp.trace.make<Generator>();
  generator->frame = &frame;
  generator->function = frame.function;
  frame.generator = generator;
  interp.trace.note_generator(generator);
  generator->maker = frame.back;
  generator->made_by_call = frame.back->current;
  frame.push(generator);
  return Step::Return;
}

/// The root may be a generator's own live frame.
Step yield_value(Interpreter&, Frame& frame, int) {
  if (!frame.generator && !frame.root) cannot(Reason::GeneratorRoot);
  return Step::Yield;
}

Step get_yield_from_iter(Interpreter& interp, Frame& frame, int) {
  if (interp.trace.see(frame.peek(1))->kind == Kind::Generator) return Step::Next;
  return get_iter(interp, frame, 0);
}

namespace {
/// Sends a value to an iterator other than a generator, by its `send`. Null at its end; `returned` is then the value of
/// its StopIteration.
Value* send_to_iterator(trace::Trace& trace, Value* receiver, Value* sent, Value*& returned) {
  static PyObject* const send_name = intern("send");
  static PyObject* const next_name = intern("__next__");
  try {
    if (trace.see(sent) != trace.none()) return protocol::call_method(trace, receiver, send_name, {sent});
    if (auto* iterator = as<Iterator>(receiver)) {
      Value* item = protocol::next(trace, iterator);
      if (!item) protocol::refuse_stop_value(trace, iterator);
      return item;
    }
    Value* method = receiver->kind == Kind::Object ? protocol::special_method(trace, receiver, next_name) : nullptr;
    if (!method) cannot(Reason::IteratorLive, "yield from");
    return protocol::call(trace, method, {});
  } catch (const UserError& error) {
    returned = protocol::stop_value(trace, error);
    return nullptr;
  }
}
}  // namespace

/// yield from: sends the value, pushes what the inner iterator yields, and jumps with its result at its end.
Step send(Interpreter& interp, Frame& frame, int) {
  Value* sent = frame.pop();
  Value* receiver = interp.trace.see(frame.peek(1));
  Value *yielded, *returned = interp.trace.none();
  if (receiver->kind == Kind::Generator) {
    yielded = interp.resume(static_cast<Generator*>(receiver), sent, nullptr, &returned);
  } else {
    yielded = send_to_iterator(interp.trace, receiver, sent, returned);
  }
  if (yielded) {
    frame.push(yielded);
    return Step::Next;
  }
  frame.peek(1) = returned;
  frame.jump(frame.current->target);
  return Step::Next;
}

}  // namespace gramme::interp
