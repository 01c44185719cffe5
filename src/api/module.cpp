// The extension module gramme._C: initialises the rooms, checks the versions of torch and CPython, and binds the
// functions that Python calls.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <torch/headeronly/version.h>

#include <cstdlib>

#include "api/captured.h"
#include "api/capturer.h"
#include "api/compiled.h"
#include "api/describe.h"
#include "api/instructions.h"
#include "api/meter.h"
#include "api/native.h"
#include "api/pipeline.h"
#include "api/portability.h"
#include "api/recording.h"
#include "api/replayed.h"
#include "api/testing.h"
#include "api/whole.h"
#include "aten/interrupted.h"
#include "aten/probe.h"
#include "aten/state.h"
#include "backend/fx.h"
#include "backend/kept_graph.h"
#include "base/interruption.h"
#include "base/process.h"
#include "base/signals.h"
#include "builtins/builtins.h"
#include "cpython/probe.h"
#include "hop/operators.h"
#include "interp/interpreter.h"
#include "native/executor.h"
#include "plan/evidence.h"
#include "runtime/callees.h"
#include "runtime/entry.h"
#include "runtime/module_call.h"
#include "runtime/sharing.h"
#include "runtime/stance.h"
#include "runtime/table.h"
#include "torch/names.h"

namespace nb = nanobind;

namespace gramme::api {
namespace {

nb::object make_entry(nb::object function, nb::object backend, bool fullgraph, std::optional<int> recompile_limit,
                      bool keep_graphs, const std::string& contract, std::optional<bool> dynamic,
                      nb::object guard_filter, uint64_t terms, bool shares, bool exact_numpy) {
  std::optional<trace::Contract> promised = trace::contract_named(contract);
  if (!promised) throw nb::value_error(("contract: no row of contract.def: '" + contract + "'").c_str());
  promised->breaks = !fullgraph;
  promised->exact_numpy = exact_numpy;
  Options options{share(backend.ptr()), recompile_limit, keep_graphs, *promised, dynamic};
  options.terms = terms;
  options.shares = shares;
  if (!guard_filter.is_none()) options.guard_filter = share(guard_filter.ptr());
  PyObject* entry = runtime::make_entry(reinterpret_cast<PyFunctionObject*>(function.ptr()),
                                        std::make_shared<Capturer>(std::move(options)));
  if (!entry) throw nb::python_error();
  std::erase_if(families(), [](const std::weak_ptr<runtime::Family>& family) { return family.expired(); });
  families().push_back(runtime::family_of(entry));
  families().back().lock()->looked_over = keep_graphs;  // its segments can be shown
  return nb::steal(entry);
}

const std::shared_ptr<runtime::Family>& family_of(nb::handle entry) {
  if (!runtime::is_entry(entry.ptr())) throw nb::type_error("not what make_entry gave");
  return runtime::family_of(entry.ptr());
}

size_t cached_segments(const runtime::Family& family) {
  size_t count = 0;
  for (auto& [code, table] : family.tables())
    for (auto& point : table->points())
      if (point) count += point->segments.size();
  return count;
}

uint64_t recorded_backwards(const runtime::Family& family) {
  uint64_t count = 0;
  for (auto& [code, segment] : segments_of(family))
    if (segment->compiled && native::is_executor(segment->compiled.get()))
      count += native::counters(segment->compiled.get()).backwards;
  return count;
}

nb::dict counters(nb::object entry) {
  std::shared_ptr<runtime::Family> family = family_of(entry);
  const runtime::Counters& c = family->counters;
  nb::dict result;
  result["calls"] = c.calls;
  result["frameless"] = c.frameless;
  result["chained"] = c.chained;
  result["plain"] = c.plain;
  result["captures"] = c.captures;
  result["shared"] = c.shared;
  result["run"] = c.segments;
  result["steps"] = c.steps;
  result["handovers"] = c.handovers;
  result["graph_errors"] = c.graph_errors;
  result["cached"] = cached_segments(*family);
  result["recorded_backwards"] = recorded_backwards(*family);
  return result;
}

/// All cached segments, ordered by line of their function and resume point. With `kept_graphs`, a segment without a
/// graph module gets one of the graph that is kept for other backends, if there is one.
nb::list segments(nb::object entry, bool kept_graphs) {
  nb::list rows;
  for (auto& [code, segment] : segments_of(*family_of(entry))) {
    nb::dict row = describe(code.get(), *segment);
    const std::shared_ptr<const backend::KeptGraph> kept = kept_graphs ? backend::kept_graph(*segment) : nullptr;
    if (kept && row["graph"].is_none()) row["graph"] = nb::steal(backend::to_fx(kept->graph(), {}).release());
    rows.append(row);
  }
  return rows;
}

/// Removes the bound form of every segment's guards; the next check binds them again.
void unbind(nb::object entry) {
  std::shared_ptr<runtime::Family> family = family_of(entry);
  std::vector<plan::Dropped> dropped;  // destroyed last: finalizers may change the tables
  for (auto& [code, table] : family->tables())
    for (auto& point : table->points())
      if (point)
        for (auto& segment : point->segments) dropped.push_back(segment->guards.unbind());
}

void reset() {
  runtime::forget_callees();
  runtime::forget_shared();
  for (auto& weak : std::vector(families()))  // finalizers of dropped objects may make entries
    if (std::shared_ptr<runtime::Family> family = weak.lock()) {
      family->clear();
      static_cast<Capturer&>(family->capturer()).forget();
    }
}

/// Calls the function, and restores the thread's modes if it raises.
nb::object keeping_modes(nb::object function, nb::args args) {
  try {
    Owned<> result = aten::keeping_modes([&] { return take(PyObject_Call(function.ptr(), args.ptr(), nullptr)); });
    return nb::steal(result.release());
  } catch (const PythonError&) {
    throw nb::python_error();
  }
}

/// Calls a function of a PyTorch compiler outside of a capture. An exception that a signal handler raises is raised at
/// its end.
nb::object keeping_handlers(nb::object function, nb::args args, nb::kwargs names) {
  HandlersKept handlers;
  const aten::DispatchHoldsSignals operators;
  Owned<> result = Owned<>::steal(PyObject_Call(function.ptr(), args.ptr(), names.ptr()));
  if (handlers.raise() || !result) throw nb::python_error();
  return nb::steal(result.release());
}

/// True if the caught exception interrupts the program.
bool interrupts(nb::handle exception) {
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr()));
  PyErr_Restore(share(type).release(), share(exception.ptr()).release(), PyException_GetTraceback(exception.ptr()));
  const bool found = is_interruption();
  PyErr_Clear();
  return found;
}

}  // namespace

/// Raises for another minor version of torch, whose classes have another layout.
void refuse_other_torch() {
  const std::string built = std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR) + ".";
  const auto found = nb::cast<std::string>(nb::str(nb::module_::import_("torch").attr("__version__")));
  if (!found.starts_with(built))
    throw nb::import_error(("gramme's module for torch " + built + "* was loaded with torch " + found).c_str());
}

/// Raises for other layouts: builds of the same version may differ by compiler flags or patches.
void refuse_other_layouts() {
  std::string text;
  try {
    text = mismatch(cpython::layouts(), std::string("CPython ") + Py_GetVersion());
    if (text.empty()) text = mismatch(aten::layouts(), std::string("torch ") + TORCH_VERSION);
  } catch (const PythonError&) {
    throw nb::python_error();
  }
  if (!text.empty()) throw nb::import_error(text.c_str());
}

/// Raises one error that lists all missing names of torch.
void refuse_missing_names() {
  const std::vector<std::string> missing = of_torch::missing();
  if (missing.empty()) return;
  std::string text = "src/torch names what this version of torch does not have:";
  for (const std::string& name : missing) text += "\n  " + name;
  throw nb::import_error(text.c_str());
}

NB_MODULE(_C, m) {
  nb::set_leak_warnings(std::getenv("GRAMME_LEAK_WARNINGS") != nullptr);  // a program's own leaks would be told, too
  refuse_other_torch();
  refuse_other_layouts();
  refuse_missing_names();
  plan::evidence_name();  // chosen from now on
  aten::watch_calls_into_python();
  builtins::register_python();
  builtins::register_torch();
  hop::register_operators();
  hop::register_hooks();
  interp::register_models();
  register_compiled();
  m.attr("Entry") = nb::borrow(reinterpret_cast<PyObject*>(runtime::entry_type()));
  m.attr("ModuleCall") = nb::borrow(reinterpret_cast<PyObject*>(runtime::module_call_type()));
  bind_captured(m);
  bind_meter(m);
  bind_instructions(m);
  bind_native(m);
  bind_pipeline(m);
  bind_recording(m);
  bind_whole(m);
  m.def("make_entry", make_entry, nb::arg("function"), nb::kw_only(), nb::arg("backend"), nb::arg("fullgraph"),
        nb::arg("recompile_limit").none(), nb::arg("keep_graphs"), nb::arg("contract") = "",
        nb::arg("dynamic") = nb::none(), nb::arg("guard_filter") = nb::none(), nb::arg("terms") = 0,
        nb::arg("shares") = false, nb::arg("exact_numpy") = false);
  m.def("counters", counters, nb::arg("entry"));
  m.def("segments", segments, nb::arg("entry"), nb::arg("kept_graphs") = false);
  m.def("unportable", unportable, nb::arg("entry"));
  m.def("unbind", unbind, nb::arg("entry"));
  m.def("reset", reset);
  m.def("keep_nothing", runtime::keep_nothing);
  m.def("let_threads_drop", aten::let_threads_drop);
  m.def(
      "forget_terms", [](uint64_t terms) { runtime::forget_kept([&](uint64_t each) { return each >> 32 == terms; }); },
      nb::arg("terms"));
  m.def(
      "set_stance", [](const std::string& name) { runtime::set_stance(runtime::stance_named(name)); }, nb::arg("name"));
  m.def(
      "set_guards_together", [](bool together) { runtime::stances->guards_together = together; }, nb::arg("together"));
  m.def(
      "compile_backward",
      [](nb::object entry) {
        runtime::family_of(entry.ptr())->compiles_backward = true;
        runtime::stances->detours = runtime::stances->backwards_compiled = true;
      },
      nb::arg("entry"));
  m.def("set_forced", [](nb::object entry) { runtime::family_of(entry.ptr())->forced = true; }, nb::arg("entry"));
  m.def("keeping_modes", keeping_modes);
  m.def("keeping_handlers", keeping_handlers);
  m.def("interrupts", interrupts);
  bind_replayed(m);
  nb::module_ testing = m.def_submodule("testing");
  bind_testing(testing);
  testing.def("layouts", [] {
    nb::list rows;
    for (const std::vector<Layout>& all : {cpython::layouts(), aten::layouts()})
      for (const Layout& layout : all) rows.append(nb::make_tuple(layout.of, layout.built, layout.found));
    return rows;
  });
  testing.def("mismatch", [](const std::string& of, int64_t built, int64_t found) {
    return mismatch({{"what is alike", 1, 1}, {of, built, found}}, "CPython");
  });
  testing.def("missing_names", [] { return nb::cast(of_torch::missing(true)); });
  ProcessState::end_load();
}

}  // namespace gramme::api
