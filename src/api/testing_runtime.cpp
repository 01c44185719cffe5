// Test-only bindings of the rooms bytecode, cpython and runtime, for tests/bytecode and tests/frames.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/testing.h"
#include "builtins/torch_rules.h"
#include "cpython/concrete.h"
#include "cpython/objects.h"
#include "runtime/entry.h"
#include "runtime/sharing.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gramme::api {
namespace {

PyCodeObject* code_argument(nb::handle code) {
  if (!PyCode_Check(code.ptr())) throw nb::type_error("a code object is needed");
  return reinterpret_cast<PyCodeObject*>(code.ptr());
}

/// Rows (offset, at, name, arg, next, target, line, resumable, names).
nb::list decode(nb::handle code) {
  nb::list rows;
  const bytecode::Code& decoded = bytecode::decode(code_argument(code));
  for (const bytecode::Instruction& i : decoded.instructions())
    rows.append(nb::make_tuple(i.offset, i.at, opcode::name(i.op), i.arg, i.next, i.target, decoded.line(i.at),
                               i.resumable, i.names));
  return rows;
}

nb::object handler(nb::handle code, int unit) {
  const bytecode::Handler* found = bytecode::decode(code_argument(code)).handler(unit);
  return found ? nb::object(nb::make_tuple(found->target, found->depth, found->lasti)) : nb::none();
}

/// Rows (name, properties, steps, text) of opcodes.def.
nb::list opcodes() {
  nb::list rows;
#define OP(name, ...)                                                                               \
  rows.append(nb::make_tuple(#name, opcode::properties(opcode::Op::name), cpython::can_step(#name), \
                             opcode::text(opcode::Op::name)));
#include "opcode/opcodes.def"
#undef OP
  return rows;
}

int stack_effect(const std::string& name, int arg, bool jumped) {
#define OP(op, ...) \
  if (name == #op) return opcode::stack_effect(opcode::Op::op, arg, jumped);
#include "opcode/opcodes.def"
#undef OP
  throw nb::value_error("no such opcode");
}

/// A capturer of empty segments: each reads the value stack, may call a Python function with it, writes the stack back
/// and ends before its first instruction.
class StackCapturer : public runtime::Capturer {
 public:
  StackCapturer(nb::object visit, int hand_over_at, bool into_callees)
      : visit_(std::move(visit)), hand_over_at_(hand_over_at), into_callees_(into_callees) {}

  std::unique_ptr<plan::Segment> capture(const runtime::FrameView& frame) override {
    plan::GuardDescription guards;
    guards.pool = std::make_shared<source::Pool>();
    guards.state = aten::GlobalState::read();
    plan::Exit exit;
    for (int i = 0; i < frame.depth; ++i) {
      exit.stack.push_back(frame.stack[i] ? static_cast<plan::Register>(guards.reads.size()) : plan::kNull);
      if (frame.stack[i]) guards.reads.push_back(guards.pool->stack(i));
    }
    exit.kind = captures_++ == hand_over_at_ ? plan::ExitKind::HandOver : plan::ExitKind::Concrete;
    exit.offset = frame.offset;
    exit.exception = plan::kKeep;
    exit.capture_callee = into_callees_;
    const int reads = static_cast<int>(guards.reads.size());
    auto segment = std::make_unique<plan::Segment>(std::move(guards));
    segment->start = frame.offset;
    segment->exit = std::move(exit);
    segment->replay.registers = segment->replay.constant_base = reads;
    if (!visit_.is_none()) {
      segment->compiled = share(visit_.ptr());
      segment->operations = 1;
      for (int i = 0; i < reads; ++i) segment->graph_inputs.push_back(i);
    }
    return segment;
  }
  bool limit_reached(const runtime::FrameView&, int, const Mismatch&) override { return true; }
  /// Skips the import system, whose caches would give each run other resume points.
  cpython::FrameRule rule_of(PyFunctionObject* function) override { return builtins::frame_rule(function); }
  int recompile_limit() const override { return 64; }
  bool fullgraph() const override { return false; }
  int traverse(visitproc visit, void* arg) const override {
    Py_VISIT(visit_.ptr());
    return 0;
  }

 private:
  nb::object visit_;
  int hand_over_at_;
  bool into_callees_;
  int captures_ = 0;
};

/// A capturer of one segment, which returns the tuple of the function's bound parameters without a frame.
class ReturningCapturer : public StackCapturer {
 public:
  ReturningCapturer() : StackCapturer(nb::none(), -1, false) {}
  std::unique_ptr<plan::Segment> capture(const runtime::FrameView& frame) override {
    PyCodeObject* code = frame.code;
    const int count = code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
                      ((code->co_flags & CO_VARKEYWORDS) != 0);
    plan::GuardDescription guards;
    guards.pool = std::make_shared<source::Pool>();
    guards.state = aten::GlobalState::read();
    for (int i = 0; i < count; ++i)
      guards.reads.push_back(guards.pool->local(i, PyTuple_GET_ITEM(code->co_localsplusnames, i)));
    auto segment = std::make_unique<plan::Segment>(std::move(guards));
    plan::Replay& replay = segment->replay;
    for (int i = 0; i < count; ++i) replay.operands.push_back(i);
    plan::ReplayOp make{plan::ReplayKind::MakeTuple};
    make.dst = segment->exit.result = replay.constant_base = count;
    make.count = count;
    replay.ops.push_back(make);
    replay.registers = count + 1;
    return segment;
  }
};

/// Asks a Python function for each segment. `script(view)` gets a dict of the frame and gives None or a dict:
///   exit "return", "concrete" or "handover"; result, offset, stack, locals [(slot, register)]
///   reads [(source kind, index)]; constants [(index of a local, value)] as guards
///   compiled, inputs (indices of reads), outputs (count), random
/// Registers are the reads, then the outputs; -1 is null.
class ScriptedCapturer : public runtime::Capturer {
 public:
  ScriptedCapturer(nb::object script, nb::object limit_reached, int limit)
      : script_(std::move(script)), limit_reached_(std::move(limit_reached)), limit_(limit) {}

  std::unique_ptr<plan::Segment> capture(const runtime::FrameView& frame) override {
    Owned<> made = take(PyObject_CallOneArg(script_.ptr(), describe(frame).ptr()));
    if (made.get() == Py_None) return nullptr;
    const auto spec = nb::borrow<nb::dict>(made.get());
    auto segment = std::make_unique<plan::Segment>(guards(spec));
    segment->start = frame.offset;
    segment->operations = 1;
    segment->compiled = share(spec.get("compiled", nb::none()).is_none() ? nullptr : spec["compiled"].ptr());
    for (nb::handle input : nb::list(spec.get("inputs", nb::list())))
      segment->graph_inputs.push_back(nb::cast<int>(input));
    segment->graph_outputs = nb::cast<int>(spec.get("outputs", nb::int_(0)));
    segment->random = nb::cast<bool>(spec.get("random", nb::bool_(false)));
    const size_t reads = segment->guards.description().reads.size();
    segment->replay.registers = static_cast<int>(reads) + segment->graph_outputs;
    segment->replay.constant_base = segment->replay.registers;
    segment->exit = exit(spec);
    return segment;
  }
  bool limit_reached(const runtime::FrameView&, int limit, const Mismatch& failing) override {
    Owned<> stop = take(PyObject_CallFunction(limit_reached_.ptr(), "is", limit, failing.text.c_str()));
    return check(PyObject_IsTrue(stop.get()));
  }
  int recompile_limit() const override { return limit_; }
  bool fullgraph() const override { return false; }

 private:
  static nb::dict describe(const runtime::FrameView& frame) {
    nb::dict view;
    view["offset"] = frame.offset;
    view["depth"] = frame.depth;
    view["exception"] = frame.exception ? nb::borrow(frame.exception) : nb::none();
    view["name"] = nb::borrow(frame.code->co_name);
    nb::list locals;
    for (int i = 0; i < frame.local_count; ++i)
      locals.append(frame.locals[i] ? nb::borrow(frame.locals[i]) : nb::none());
    view["locals"] = locals;
    return view;
  }

  static plan::GuardDescription guards(const nb::dict& spec) {
    plan::GuardDescription guards;
    guards.pool = std::make_shared<source::Pool>();
    guards.state = aten::GlobalState::read();
    for (nb::handle read : nb::list(spec.get("reads", nb::list()))) {
      const int index = nb::cast<int>(read[1]);
      const bool local = nb::cast<std::string>(read[0]) == "local";
      guards.reads.push_back(local ? guards.pool->local(index, nb::str("x").ptr()) : guards.pool->stack(index));
    }
    for (nb::handle fact : nb::list(spec.get("constants", nb::list()))) {
      guards::Fact guard{guards.pool->local(nb::cast<int>(fact[0]), nb::str("x").ptr()), guards::Kind::Constant, {}};
      guard.object = share(nb::object(fact[1]).ptr());
      guards.facts.push_back(std::move(guard));
    }
    return guards;
  }

  static plan::Exit exit(const nb::dict& spec) {
    plan::Exit exit;
    const auto kind = nb::cast<std::string>(spec["exit"]);
    exit.kind = kind == "return"     ? plan::ExitKind::Return
                : kind == "concrete" ? plan::ExitKind::Concrete
                                     : plan::ExitKind::HandOver;
    exit.exception = plan::kKeep;
    exit.result = nb::cast<int>(spec.get("result", nb::int_(-1)));
    exit.offset = nb::cast<int>(spec.get("offset", nb::int_(0)));
    for (nb::handle item : nb::list(spec.get("stack", nb::list()))) exit.stack.push_back(nb::cast<int>(item));
    for (nb::handle write : nb::list(spec.get("locals", nb::list())))
      exit.locals.push_back({nb::cast<int>(write[0]), nb::cast<int>(write[1])});
    return exit;
  }

  nb::object script_, limit_reached_;
  int limit_;
};

template <class MadeCapturer>
nb::object entry_of(nb::handle function, std::shared_ptr<MadeCapturer> capturer) {
  if (!PyFunction_Check(function.ptr())) throw nb::type_error("a Python function is needed");
  PyObject* entry = runtime::make_entry(reinterpret_cast<PyFunctionObject*>(function.ptr()), std::move(capturer));
  if (!entry) throw nb::python_error();
  return nb::steal(entry);
}

nb::object returning_entry(nb::handle function) { return entry_of(function, std::make_shared<ReturningCapturer>()); }

nb::object stepping_entry(nb::handle function, nb::object visit, int hand_over_at, bool into_callees) {
  return entry_of(function, std::make_shared<StackCapturer>(std::move(visit), hand_over_at, into_callees));
}

nb::object scripted_entry(nb::handle function, nb::object script, nb::object limit_reached, int limit) {
  return entry_of(function, std::make_shared<ScriptedCapturer>(std::move(script), std::move(limit_reached), limit));
}

nb::dict counters(nb::handle entry) {
  const runtime::Counters& c = runtime::family_of(entry.ptr())->counters;
  nb::dict all;
  all["calls"] = c.calls;
  all["frameless"] = c.frameless;
  all["plain"] = c.plain;
  all["captures"] = c.captures;
  all["segments"] = c.segments;
  all["steps"] = c.steps;
  all["handovers"] = c.handovers;
  all["graph_errors"] = c.graph_errors;
  return all;
}

/// The number of resume points over all code objects.
size_t resume_points(nb::handle entry) {
  size_t count = 0;
  for (const auto& [code, table] : runtime::family_of(entry.ptr())->tables())
    for (const auto& point : table->points()) count += point != nullptr;
  return count;
}

/// (status, value) of a lookup that runs no Python: 0 absent, 1 found, 2 would need Python.
nb::tuple lookup(nb::handle container, nb::handle key, bool attribute) {
  PyObject* value = nullptr;
  cpython::Lookup found = attribute ? cpython::instance_attribute(container.ptr(), key.ptr(), &value)
                                    : cpython::dict_lookup(container.ptr(), key.ptr(), &value);
  return nb::make_tuple(static_cast<int>(found), value ? nb::borrow(value) : nb::none());
}

nb::object dict_entry(nb::handle dict, Py_ssize_t index) {
  PyObject *key, *value;
  if (!cpython::dict_entry(dict.ptr(), index, &key, &value)) return nb::none();
  return nb::make_tuple(nb::borrow(key), nb::borrow(value));
}

/// The content of a __slots__ member; None if empty, NotImplemented if the descriptor is not one of the object's.
nb::object slot(nb::handle object, nb::handle descriptor) {
  Py_ssize_t offset = cpython::slot_offset(descriptor.ptr(), Py_TYPE(object.ptr()));
  if (offset < 0) return nb::borrow(Py_NotImplemented);
  PyObject* value = *cpython::slot_address(object.ptr(), offset);
  return value ? nb::borrow(value) : nb::none();
}

nb::object borrowed_or_none(PyObject* object) { return object ? nb::borrow(object) : nb::none(); }

void bind_objects(nb::module_& m) {
  m.def("lookup", lookup, "container"_a, "key"_a.none(), "attribute"_a = false);
  m.def("dict_entry", dict_entry, "dict"_a, "index"_a);
  m.def("slot", slot, "object"_a, "descriptor"_a);
  m.def("inert_key", [](nb::handle key) { return cpython::is_inert_key(key.ptr()); }, "key"_a.none());
  m.def(
      "type_tag", [](nb::handle type) { return cpython::type_tag(reinterpret_cast<PyTypeObject*>(type.ptr())); },
      "type"_a);
#if GRAMME_PYTHON_DICT_VERSIONS
  m.def("dict_version", [](nb::handle dict) { return cpython::dict_version(dict.ptr()); }, "dict"_a);
#endif
  m.def("order_state", [](nb::handle dict) { return *cpython::ordered_dict_state_address(dict.ptr()); }, "dict"_a);
  m.def(
      "ordered_key",
      [](nb::handle dict, Py_ssize_t i) { return borrowed_or_none(cpython::ordered_dict_key(dict.ptr(), i)); },
      "dict"_a, "index"_a);
  m.def(
      "deque_item",
      [](nb::handle deque, Py_ssize_t i) {
        PyObject** item = cpython::deque_item_address(deque.ptr(), i);
        return borrowed_or_none(item ? *item : nullptr);
      },
      "deque"_a, "index"_a);
}

}  // namespace

void bind_runtime_testing(nb::module_& module) {
  nb::module_ m = module.def_submodule("testing_runtime", "For gramme's own tests.");
  m.def("decode", decode, "code"_a);
  m.def("handler", handler, "code"_a, "unit"_a);
  m.def("opcodes", opcodes);
  m.def("stack_effect", stack_effect, "name"_a, "arg"_a, "jumped"_a);
  m.def("stepping_entry", stepping_entry, "function"_a, "visit"_a = nb::none(), "hand_over_at"_a = -1,
        "into_callees"_a = false);
  m.def("forget_shared", runtime::forget_shared);
  m.def("scripted_entry", scripted_entry, "function"_a, "script"_a, "limit_reached"_a = nb::none(), "limit"_a = 8);
  m.def("returning_entry", returning_entry, "function"_a);
  m.def("counters", counters, "entry"_a);
  m.def("resume_points", resume_points, "entry"_a);
  bind_objects(m);
}

}  // namespace gramme::api
