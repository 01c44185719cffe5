// Lets tests end a capture at a given instruction, or refuse in the middle of one.
//
//   limit(entry, stop_at=7)          # captures that begin at a function's start end at instruction 7, of callees too
//   limit(entry, refuse_at=30)       # the 30th instruction, of callees too, cannot be captured
//   segments(entry)                  # all of what was captured, as text
//   models()                         # the C functions that gramme has models of
//   phases(entry, args)              # runs the segment that fits, a step of it at a time
//   refusals()                       # the rows of refusals.def
//   first_refusal(stage, facts)      # the row of a stage that holds for these facts
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <chrono>

#include "api/capturer.h"
#include "api/testing.h"
#include "cpython/objects.h"
#include "protocol/protocol.h"
#include "runtime/entry.h"
#include "runtime/run.h"
#include "source/constant.h"
#include "trace/refusals.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gramme::api {
namespace {

void limit(nb::handle entry, size_t stop_at, size_t refuse_at, bool everywhere) {
  trace::Policy told;
  if (stop_at) told.stop_at = stop_at;
  if (refuse_at) {
    told.max_instructions = refuse_at - 1;
    told.beyond = Reason::GraphBreakCalled;
  }
  static_cast<Capturer&>(runtime::family_of(entry.ptr())->capturer()).tell(told, everywhere ? told : trace::Policy());
}

std::string text_of(plan::Register reg) {
  return reg == plan::kNull ? "null" : reg == plan::kKeep ? "keep" : std::to_string(reg);
}

std::string print(const plan::Replay& replay, const plan::ReplayOp& op) {
  std::string line = std::string(plan::kind_name(op.kind)) + " " + text_of(op.dst) + " <-";
  for (plan::Register reg : {op.a, op.b, op.c}) line += " " + text_of(reg);
  for (int i = 0; i < op.count; ++i) line += " " + text_of(replay.operands[static_cast<size_t>(op.first + i)]);
  return line + " " + std::to_string(op.number) + (op.object ? " " + source::describe(op.object.get()) : "");
}

nb::list replayed(const plan::Segment& segment) {
  nb::list lines;
  for (const plan::ReplayOp& op : segment.replay.ops) lines.append(print(segment.replay, op));
  for (const Owned<>& constant : segment.replay.constants) lines.append(source::describe(constant.get()));
  std::string exit = "exit " + std::to_string(static_cast<int>(segment.exit.kind)) + " at " +
                     std::to_string(segment.exit.offset) + ": " + text_of(segment.exit.result) + ", " +
                     text_of(segment.exit.exception) + ", stack";
  for (plan::Register reg : segment.exit.stack) exit += " " + text_of(reg);
  for (const plan::SlotWrite& write : segment.exit.locals)
    exit += ", slot " + std::to_string(write.slot) + " " + text_of(write.value);
  lines.append(exit);
  return lines;
}

nb::dict describe(PyCodeObject* code, const plan::Segment& segment) {
  nb::list guards, reads, effects;
  for (const std::string& line : segment.guards.description().print()) guards.append(line);
  for (const source::Source* source : segment.guards.description().reads) reads.append(source->print());
  for (const std::string& effect : segment.effects) effects.append(effect);
  nb::dict row;
  row["function"] = nb::borrow(code->co_qualname);
  row["start"] = segment.start;
  row["steps"] = segment.steps;
  row["guards"] = guards;
  row["reads"] = reads;
  row["effects"] = effects;
  row["replay"] = replayed(segment);
  return row;
}

nb::list segments(nb::handle entry) {
  nb::list rows;
  for (auto& [code, table] : runtime::family_of(entry.ptr())->tables())
    for (auto& point : table->points())
      if (point)
        for (auto& segment : point->segments) rows.append(describe(code, *segment));
  return rows;
}

/// Nanoseconds of guards, graph, replay and of releasing their objects, in a call that a segment answers; None if none
/// does.
nb::object phases(nb::handle entry, nb::tuple args) {
  using Clock = std::chrono::steady_clock;
  PyFunctionObject* function = runtime::function_of(entry.ptr());
  runtime::CodeTable& table = *runtime::family_of(entry.ptr())->table(cpython::code_of(function));
  runtime::BoundArguments bound(table.code()->co_nlocalsplus);
  PyObject* const* items = reinterpret_cast<PyTupleObject*>(args.ptr())->ob_item;
  if (!table.binder.bind(function, items, static_cast<Py_ssize_t>(args.size()), nullptr, bound)) return nb::none();
  plan::Dropped dropped;
  for (const runtime::SegmentPtr& segment : table.point(0, runtime::Handling::Nothing).segments) {
    std::array<Clock::time_point, 5> times{Clock::now()};
    runtime::SegmentRun run;
    run.begin(segment);
    const plan::Roots roots{bound.locals(), nullptr, function, nullptr};
    if (segment->exit.kind != plan::ExitKind::Return || !run.check(roots, dropped)) continue;
    times[1] = Clock::now();
    if (run.graph(nullptr) != runtime::GraphResult::Done) return nb::none();
    times[2] = Clock::now();
    if (!run.replay()) throw nb::python_error();
    times[3] = Clock::now();
    run.release();
    times[4] = Clock::now();
    auto took = [&](size_t i) { return std::chrono::nanoseconds(times[i + 1] - times[i]).count(); };
    return nb::make_tuple(took(0), took(1), took(2), took(3));
  }
  return nb::none();
}

}  // namespace

namespace {
/// Every C function with a model, and the arguments for which the model is written (Takes).
nb::list models() {
  static constexpr const char* kTakes[] = {"unstated", "plain", "asked"};
  nb::list all;
  for (const protocol::Modelled& model : protocol::all_models())
    all.append(nb::make_tuple(nb::borrow(model.callable), kTakes[static_cast<int>(model.takes)]));
  return all;
}

uint32_t facts_of(const std::vector<std::string>& names) {
  uint32_t facts = 0;
  for (const std::string& each : names) {
#define FACT(name, text) \
  if (each == #name) facts |= trace::fact::name;
#include "trace/refusals.def"
  }
  return facts;
}

std::vector<std::string> names_of(uint32_t facts) {
  std::vector<std::string> names;
#define FACT(name, text) \
  if (facts & trace::fact::name) names.push_back(#name);
#include "trace/refusals.def"
  return names;
}

/// The rows of refusals.def: stage, name, the facts that hold and those that do not, reason, text.
nb::list refusals() {
  nb::list rows;
  for (const trace::Refusal& row : trace::refusals::kTable)
    rows.append(nb::make_tuple(static_cast<int>(row.stage), row.name, names_of(row.all), names_of(row.none),
                               reason_name(row.reason), row.text));
  return rows;
}

/// The name of the first row of the stage that holds, or None.
std::optional<std::string> first_refusal(int stage, const std::vector<std::string>& names) {
  using trace::Stage;
  const trace::Facts facts = facts_of(names);
  const trace::Refusal* found =
      stage == static_cast<int>(Stage::Operation) ? trace::refusals::first<Stage::Operation>(facts)
      : stage == static_cast<int>(Stage::Call)    ? trace::refusals::first<Stage::Call>(facts)
      : stage == static_cast<int>(Stage::Outcome) ? trace::refusals::first<Stage::Outcome>(facts)
                                                  : trace::refusals::first<Stage::Order>(facts);
  return found ? std::optional<std::string>(found->name) : std::nullopt;
}

}  // namespace

void bind_capture_testing(nb::module_& module) {
  nb::module_ m = module.def_submodule("testing_capture", "For gramme's own tests.");
  m.def("limit", limit, "entry"_a, "stop_at"_a = 0, "refuse_at"_a = 0, "everywhere"_a = false);
  m.def("segments", segments, "entry"_a);
  m.def("phases", phases, "entry"_a, "args"_a);
  m.def("models", models);
  m.def("refusals", refusals);
  m.def("first_refusal", first_refusal, "stage"_a, "facts"_a);
}

}  // namespace gramme::api
