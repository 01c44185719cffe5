// Test-only bindings of the rooms source, guards and plan: guard plans built from Python.
//
//   plan = TestGuards(["x"], [((("Local", "x"), ("Attr", "p")), "Constant", 0.5)], reads=[(("Local", "x"),)])
//   plan.check([x])        # the objects read, or None
//
// A path is a tuple of (source kind, key or index); a Local is named. The operand of SameAs, NotSameAs, NoOverlap and
// OtherStorage is another path, that of Tensor an example, or an example and the bits of the sizes and strides that
// vary. Symbols are paths, properties pairs of a path and an expression, conditions expressions or pairs of one and a
// place; numbers are expressions, whose values follow the objects read.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstring>

#include "api/testing.h"
#include "api/testing_shape.h"
#include "aten/spec.h"
#include "aten/state.h"
#include "cpython/watched_dicts.h"
#include "guards/dropped.h"
#include "plan/evidence.h"
#include "plan/guard_plan.h"
#include "plan/replay.h"
#include "plan/rows.h"
#include "source/constant.h"

namespace nb = nanobind;

namespace gramme::api {
namespace {

/// The objects that a test passes for one call, kept alive meanwhile.
class Frame {
 public:
  Frame(nb::list locals, nb::object function, nb::list stack, nb::object exception)
      : locals_(pointers(locals)), stack_(pointers(stack)) {
    roots_.locals = locals_.data();
    roots_.stack = stack_.data();
    if (!function.is_none()) roots_.function = reinterpret_cast<PyFunctionObject*>(function.ptr());
    if (!exception.is_none()) roots_.exception = exception.ptr();
  }
  const plan::Roots& roots() const { return roots_; }

 private:
  /// NotImplemented stands for an unbound variable.
  static std::vector<PyObject*> pointers(const nb::list& objects) {
    std::vector<PyObject*> result;
    for (nb::handle object : objects) result.push_back(object.ptr() == Py_NotImplemented ? nullptr : object.ptr());
    return result;
  }

  std::vector<PyObject*> locals_, stack_;
  plan::Roots roots_;
};

class TestGuards {
 public:
  TestGuards(std::vector<std::string> locals, nb::list facts, nb::list reads, nb::dict shapes)
      : locals_(std::move(locals)), plan_(describe(facts, reads, shapes)), read_(plan_.object_count()) {}

  nb::object check(nb::list locals, nb::object function, nb::list stack, nb::object exception) {
    Frame frame(locals, function, stack, exception);
    plan::Dropped dropped;
    if (!plan_.check(frame.roots(), read_.data(), dropped)) return nb::none();
    nb::list result;
    for (PyObject* object : read_) result.append(object ? nb::steal(object) : nb::borrow(Py_NotImplemented));
    return result;
  }

  std::string explain(nb::list locals, nb::object function, nb::list stack, nb::object exception) const {
    Frame frame(locals, function, stack, exception);
    return plan_.explain(frame.roots()).text;
  }

  void unbind() { plan_.unbind(); }

  void require(nb::list conditions) { plan_.require(conditions_of(conditions)); }

  nb::dict statistics() const {
    plan::GuardPlan::Statistics now = plan_.statistics();
    nb::dict result;
    result["facts"] = now.facts;
    result["words"] = now.words;
    result["tensors"] = now.tensors;
    result["walks"] = now.walks;
    result["rebinds"] = now.rebinds;
    return result;
  }

  std::vector<std::string> print() const { return plan_.description().print(); }

  /// Nanoseconds of one check; `calls` are lists of locals, taken in turn. A counter in the dict `written` rises before
  /// each, as an attribute of a module may.
  double time(nb::list calls, nb::object function, int rounds, nb::object written) {
    std::vector<Frame> frames;
    frames.reserve(nb::len(calls));
    for (nb::handle locals : calls) frames.emplace_back(nb::borrow<nb::list>(locals), function, nb::list(), nb::none());
    size_t at = 0;
    bool held = true;
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i) {
      if (!written.is_none()) written["counter"] = i;
      plan::Dropped dropped;
      const bool now = plan_.check(frames[at].roots(), read_.data(), dropped);
      if (now)
        for (PyObject* object : read_) Owned<>::steal(object);
      held &= now;
      if (++at == frames.size()) at = 0;
    }
    std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    if (!held) throw nb::value_error("a check failed while it was timed");
    return spent.count() / rounds;
  }

 private:
  plan::GuardDescription describe(nb::list facts, nb::list reads, nb::dict shapes) {
    plan::GuardDescription description;
    pool_ = description.pool = std::make_shared<source::Pool>();
    for (nb::handle row : facts) description.facts.push_back(fact(nb::borrow<nb::tuple>(row)));
    for (nb::handle path : reads) description.reads.push_back(source_of(nb::borrow<nb::tuple>(path)));
    description.state = aten::GlobalState::read();
    describe_shapes(shapes, description.shapes);
    return description;
  }

  void describe_shapes(nb::dict from, guards::ShapeGuards& shapes) {
    auto rows = [&](const char* key) { return from.contains(key) ? nb::list(from[key]) : nb::list(); };
    for (nb::handle path : rows("symbols")) shapes.symbols.push_back(source_of(nb::borrow<nb::tuple>(path)));
    for (nb::handle row : rows("properties"))
      shapes.properties.push_back({source_of(nb::borrow<nb::tuple>(row[0])), expression_of(row[1])});
    for (nb::handle number : rows("numbers")) shapes.numbers.push_back(expression_of(number));
    shapes.conditions = conditions_of(rows("conditions"));
  }

  static std::vector<guards::ShapeGuards::Condition> conditions_of(nb::list rows) {
    std::vector<guards::ShapeGuards::Condition> conditions;
    for (nb::handle row : rows) {
      const bool placed = PyTuple_Check(row.ptr());
      conditions.push_back(
          {expression_of(placed ? nb::object(row[0]) : nb::borrow(row)), placed ? nb::cast<std::string>(row[1]) : ""});
    }
    return conditions;
  }

  guards::Fact fact(nb::tuple row) {
    guards::Fact fact;
    fact.source = source_of(nb::borrow<nb::tuple>(row[0]));
    fact.kind = kind_of(nb::cast<std::string>(row[1]));
    nb::object operand = row[2];
    const bool both = guards::operand(fact.kind) == guards::Operand::Both && PyTuple_Check(operand.ptr());
    switch (guards::operand(fact.kind)) {
      case guards::Operand::Other:
        fact.other = source_of(nb::borrow<nb::tuple>(operand));
        break;
      case guards::Operand::Number:
        fact.number = nb::cast<int64_t>(operand);
        break;
      case guards::Operand::Spec:
        fact.spec = PyTuple_Check(operand.ptr())
                        ? aten::with_varying(*aten::tensor_spec(nb::object(operand[0]).ptr()),
                                             nb::cast<uint64_t>(operand[1]), nb::cast<uint64_t>(operand[2]))
                        : aten::tensor_spec(operand.ptr());
        break;
      case guards::Operand::Both:
        fact.object = share((both ? nb::object(operand[0]) : operand).ptr());
        if (both) fact.number = nb::cast<int64_t>(operand[1]);
        break;
      case guards::Operand::Object:
      case guards::Operand::None:
        fact.object = share(operand.ptr());
        break;
    }
    return fact;
  }

  static guards::Kind kind_of(const std::string& name) {
    for (int kind = 0; kind <= static_cast<int>(guards::Kind::Unguarded); ++kind)
      if (name == guards::kind_name(static_cast<guards::Kind>(kind))) return static_cast<guards::Kind>(kind);
    throw nb::value_error(("no guard kind " + name).c_str());
  }

  const source::Source* source_of(nb::tuple path) {
    const source::Source* source = nullptr;
    for (nb::handle step : path) source = extend(source, nb::borrow<nb::tuple>(step));
    return source;
  }

  const source::Source* extend(const source::Source* base, nb::tuple step) {
    using source::Kind;
    auto name = nb::cast<std::string>(step[0]);
    nb::object key = nb::len(step) > 1 ? nb::object(step[1]) : nb::none();
    if (name == "Local") return local(key);
    if (name == "Stack") return pool_->stack(nb::cast<int>(key));
    if (name == "Function") return pool_->function();
    if (name == "Exception") return pool_->exception();
    if (name == "Pinned") return pool_->pinned(key.ptr());
    if (name == "Module") return pool_->module(key.ptr());
    if (name == "Closure" && nb::len(step) > 2)
      return pool_->closure(base, nb::cast<int64_t>(key), nb::object(step[2]).ptr());
    for (int kind = 0; kind <= static_cast<int>(Kind::OffsetOf); ++kind) {
      auto k = static_cast<Kind>(kind);
      if (name != source::kind_name(k)) continue;
      if (nb::len(step) == 1) return pool_->child(base, k);
      if (k != Kind::Value && nb::isinstance<nb::int_>(key)) return pool_->child(base, k, nb::cast<int64_t>(key));
      return pool_->child(base, k, key.ptr());
    }
    throw nb::value_error(("no source kind " + name).c_str());
  }

  const source::Source* local(nb::handle name) {
    auto text = nb::cast<std::string>(name);
    for (size_t i = 0; i < locals_.size(); ++i)
      if (locals_[i] == text) return pool_->local(static_cast<int>(i), name.ptr());
    throw nb::value_error(("no local " + text).c_str());
  }

  std::vector<std::string> locals_;
  std::shared_ptr<source::Pool> pool_;
  plan::GuardPlan plan_;
  std::vector<PyObject*> read_;
};

struct Spec {
  const aten::TensorSpec* spec;
};

}  // namespace

namespace {

/// The rows of guards.def, sources.def or replay.def, without their texts.
nb::list table(const std::string& name) {
  nb::list rows;
#define GUARD(name, operand, role, needs, text) rows.append(nb::make_tuple(#name, #operand, #role, #needs));
#define SOURCE(name, uses, place, needs, evidence, text) rows.append(nb::make_tuple(#name, #place, #needs, #evidence));
#define REPLAY(name, gives, takes, operands, text) rows.append(nb::make_tuple(#name, #gives, #takes, operands));
  if (name == "guards") {
#include "guards/guards.def"
  } else if (name == "sources") {
#include "source/sources.def"
  } else if (name == "replay") {
#include "plan/replay.def"
  }
#undef GUARD
#undef SOURCE
#undef REPLAY
  return rows;
}

/// What a replay operation of this kind lacks with these registers and this object; None if nothing.
nb::object missing_in_replay(const std::string& name, plan::Register dst, std::vector<plan::Register> registers,
                             nb::object object, std::vector<plan::Register> operands) {
  for (int i = 0; i < static_cast<int>(nb::len(table("replay"))); ++i) {
    plan::ReplayOp op{.kind = static_cast<plan::ReplayKind>(i)};
    if (name != plan::kind_name(op.kind)) continue;
    op.dst = dst;
    op.a = registers.at(0), op.b = registers.at(1), op.c = registers.at(2);
    op.count = static_cast<int32_t>(operands.size());
    if (!object.is_none()) op.object = share(object.ptr());
    const char* missing = plan::what_is_missing(op, operands);
    return missing ? nb::object(nb::str(missing)) : nb::none();
  }
  throw nb::value_error(("no replay operation " + name).c_str());
}

}  // namespace

void bind_guards_testing(nb::module_& m) {
  m.def("table", &table, nb::arg("name"));
  m.def("empty_column", &plan::empty_column, nb::arg("table"), nb::arg("row"), nb::arg("column"));
  m.def("use_evidence", &plan::use_evidence, nb::arg("name"));
  m.def("evidence", &plan::evidence_name);
  m.def("watched_dicts", &cpython::watched_dicts);
  m.def("restore_columns", &plan::restore_columns);
  m.def("missing_in_replay", &missing_in_replay, nb::arg("kind"), nb::arg("dst"), nb::arg("registers"),
        nb::arg("object").none(), nb::arg("operands"));
  m.def("shape_kinds", &guards::shape_kinds);
  m.def("drop_guards", &guards::drop, nb::arg("kind"));
  nb::class_<TestGuards>(m, "TestGuards")
      .def(nb::init<std::vector<std::string>, nb::list, nb::list, nb::dict>(), nb::arg("locals"), nb::arg("facts"),
           nb::arg("reads") = nb::list(), nb::arg("shapes") = nb::dict())
      .def("check", &TestGuards::check, nb::arg("locals"), nb::arg("function") = nb::none(),
           nb::arg("stack") = nb::list(), nb::arg("exception") = nb::none())
      .def("explain", &TestGuards::explain, nb::arg("locals"), nb::arg("function") = nb::none(),
           nb::arg("stack") = nb::list(), nb::arg("exception") = nb::none())
      .def("unbind", &TestGuards::unbind)
      .def("require", &TestGuards::require)
      .def("statistics", &TestGuards::statistics)
      .def("print", &TestGuards::print)
      .def("time", &TestGuards::time, nb::arg("calls"), nb::arg("function") = nb::none(), nb::arg("rounds") = 100000,
           nb::arg("written") = nb::none());
  nb::class_<Spec>(m, "Spec")
      .def("__init__", [](Spec* self, nb::handle tensor) { new (self) Spec{aten::tensor_spec(tensor.ptr())}; })
      .def("with_varying",
           [](Spec s, uint64_t sizes, uint64_t strides) { return Spec{aten::with_varying(*s.spec, sizes, strides)}; })
      .def("without_autograd", [](Spec s) { return Spec{aten::without_autograd(*s.spec)}; })
      .def("matches", [](Spec s, nb::handle object) { return aten::matches(*s.spec, object.ptr()); })
      .def("explain", [](Spec s, nb::handle object) { return aten::explain_mismatch(*s.spec, object.ptr()).text; })
      .def("__repr__", [](Spec s) { return s.spec->print(); })
      .def("__eq__", [](Spec a, Spec b) { return a.spec == b.spec; })
      .def_prop_ro("varying", [](Spec s) { return nb::make_tuple(s.spec->varying_sizes, s.spec->varying_strides); });
  m.def("same_constant", [](nb::handle a, nb::handle b) { return source::same_constant(a.ptr(), b.ptr()); });
}

}  // namespace gramme::api
