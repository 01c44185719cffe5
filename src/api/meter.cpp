// Differences of the thread's counters between opening and reading.
#include "api/meter.h"

#include <optional>

#include "aten/dispatched.h"
#include "base/error.h"
#include "runtime/counters.h"

namespace nb = nanobind;

namespace gramme::api {
namespace {

using runtime::Counters;

/// The numbers of a reading: ROW(name, value), from the runtime's and the dispatcher's counters.
#define GRAMME_READINGS(ROW)                         \
  ROW(inside, runtime.operators + dispatched.inside) \
  ROW(outside, dispatched.outside)                   \
  ROW(backward, dispatched.backward)                 \
  ROW(graphs, runtime.graphs)                        \
  ROW(captures, runtime.captures)                    \
  ROW(steps, runtime.steps)                          \
  ROW(handovers, runtime.handovers)                  \
  ROW(plain, runtime.plain)                          \
  ROW(graph_errors, runtime.graph_errors)

struct Reading {
#define ROW(name, value) uint64_t name;
  GRAMME_READINGS(ROW)
#undef ROW

  static Reading now() {
    const Counters& runtime = runtime::thread_counters();
    const aten::Dispatched dispatched = aten::dispatched();
    return {
#define ROW(name, value) value,
        GRAMME_READINGS(ROW)
#undef ROW
    };
  }

  nb::dict since(const Reading& before) const {
    nb::dict result;
#define ROW(name, value) result[#name] = name - before.name;
    GRAMME_READINGS(ROW)
#undef ROW
    return result;
  }
};

/// Counts the operations and captures of its thread while it is open.
class Meter {
 public:
  ~Meter() {
    if (open_ && is_here()) close();
  }

  void open() {
    if (open_) throw nb::value_error("the meter is open already");
    thread_ = &runtime::thread_counters();
    open_.emplace();
    before_ = now_ = Reading::now();
    ++runtime::counted->watchers;
  }

  void close() {
    if (!open_) throw nb::value_error("the meter is not open");
    if (!is_here()) throw nb::value_error("the meter was opened in another thread");
    --runtime::counted->watchers;
    now_ = Reading::now();
    open_.reset();
  }

  nb::dict read() {
    if (open_ && is_here()) now_ = Reading::now();
    return now_.since(before_);
  }

 private:
  struct Open {
    aten::CountsDispatched counts;
    aten::FollowsBackward follows;
  };
  bool is_here() const { return thread_ == &runtime::thread_counters(); }

  std::optional<Open> open_;
  const Counters* thread_ = nullptr;
  Reading before_{}, now_{};
};

/// Calls a function whose operators count as inside one graph.
nb::object run_as_graph(nb::callable function, nb::tuple args) {
  aten::InGraph graph;
  nb::object result = nb::steal(PyObject_CallObject(function.ptr(), args.ptr()));
  if (!result) throw nb::python_error();
  ++runtime::thread_counters().graphs;
  return result;
}

}  // namespace

void bind_meter(nb::module_& m) {
  nb::class_<Meter>(m, "Meter")
      .def(nb::init<>())
      .def("open", &Meter::open)
      .def("close", &Meter::close)
      .def("read", &Meter::read);
  m.def("run_as_graph", run_as_graph, nb::arg("function"), nb::arg("args"));
}

}  // namespace gramme::api
