// Builds the dicts from which gramme.Segment is made, and lists the segments in caches.
#include "api/describe.h"

#include <nanobind/stl/string.h>

#include "api/report.h"
#include "backend/metadata.h"
#include "base/process.h"
#include "bytecode/code.h"
#include "native/executor.h"

namespace nb = nanobind;

namespace gramme::api {
namespace {

struct State {
  std::vector<std::weak_ptr<runtime::Family>> families;  // GIL: of all entries

  size_t size() const { return families.size(); }
};
OfProcess<State> state;

/// (file, line, function)
nb::tuple place(PyObject* code, int unit) {
  auto* object = reinterpret_cast<PyCodeObject*>(code);
  return nb::make_tuple(nb::borrow(object->co_filename), bytecode::decode(object).line(unit),
                        nb::borrow(object->co_qualname));
}

/// The calls at the segment's end, the innermost first.
nb::list frames(const plan::Ending& ending) {
  nb::list frames;
  for (size_t i = ending.stack.size(); i-- > 0;)
    frames.append(place(ending.stack[i].first.get(), ending.stack[i].second));
  return frames;
}

/// The opcode of the instruction before which the segment ends and which runs uncaptured; empty for other ends.
const char* instruction(PyCodeObject* code, const plan::Exit& exit) {
  if (exit.kind != plan::ExitKind::Concrete) return "";
  const bool pushed = !exit.pushed.empty();
  PyCodeObject* last = pushed                 ? exit.pushed.back().code.get()
                       : exit.callers.empty() ? code
                                              : exit.callers.back().code.get();
  const bytecode::Code& ends_in = bytecode::decode(last);
  const auto at = static_cast<size_t>(ends_in.index_of(pushed ? exit.pushed.back().offset : exit.offset));
  return opcode::name(ends_in.instructions().at(at).op);
}

}  // namespace

nb::dict describe(PyCodeObject* code, const plan::Segment& segment) {
  constexpr const char* kExits[] = {"return", "concrete", "handover", "yield"};
  nb::dict row;
  row["number"] = segment.number;
  row["recorded"] = segment.recorded;
  row["compile_id"] = segment.compile_id.given() ? segment.compile_id.print() : "";
  row["function"] = nb::borrow(code->co_qualname);
  row["file"] = nb::borrow(code->co_filename);
  row["start"] = bytecode::decode(code).line(segment.start);
  row["line"] = segment.ending.line;
  nb::list returns_into;
  for (const plan::Caller& caller : segment.exit.callers)
    returns_into.append(place(reinterpret_cast<PyObject*>(caller.code.get()), caller.unit));
  row["returns_into"] = returns_into;
  row["frames"] = frames(segment.ending);
  row["innermost"] = nb::make_tuple(segment.ending.file, segment.ending.inner_line, segment.ending.function);
  row["module"] = backend::module_path(segment.ending.module);
  row["instruction"] = instruction(code, segment.exit);
  row["pushed"] = segment.exit.pushed.size();
  row["goes_on"] = is_told(segment);
  row["runs"] = segment.hits + 1;
  row["operations"] = segment.operations;
  row["graph"] = segment.graph_module ? nb::borrow(segment.graph_module.get()) : nb::none();
  const bool native = segment.compiled && native::is_executor(segment.compiled.get());
  row["native"] = native ? nb::borrow(segment.compiled.get()) : nb::none();
  nb::list guards;
  for (const std::string& line : segment.guards.description().print()) guards.append(line);
  row["guards"] = guards;
  row["check_seconds"] = segment.check_seconds;
  nb::list costs;
  for (const plan::GuardPlan::Cost& cost : segment.guards.costs())
    costs.append(nb::make_tuple(cost.what, cost.seconds));
  row["check_costs"] = costs;
  row["symbols"] = nb::steal(symbol_rows(segment).release());
  nb::list decisions;
  for (const std::string& line : segment.guards.description().shapes.print()) decisions.append(line);
  row["sizes"] = decisions;
  nb::list effects;
  for (const std::string& effect : segment.effects) effects.append(effect);
  row["effects"] = effects;
  row["exit"] = kExits[static_cast<int>(segment.exit.kind)];
  row["reason"] =
      segment.ending.detail.empty() ? segment.ending.reason : segment.ending.reason + ": " + segment.ending.detail;
  row["kind"] = segment.ending.kind;
  row["subject"] = segment.ending.detail;
  row["hint"] = segment.ending.hint;
  return row;
}

std::vector<std::weak_ptr<runtime::Family>>& families() { return state->families; }

std::vector<std::pair<Owned<PyCodeObject>, runtime::SegmentPtr>> segments_of(const runtime::Family& family) {
  std::vector<std::pair<Owned<PyCodeObject>, runtime::SegmentPtr>> all;
  for (auto& [code, table] : family.tables())
    for (auto& point : table->points())
      if (point)
        for (auto& segment : point->segments) all.emplace_back(Owned<PyCodeObject>::share(code), segment);
  return all;
}

}  // namespace gramme::api
