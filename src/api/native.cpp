// Binds gramme._C.native, and reads the options of the backend object.
#include "api/native.h"

#include <nanobind/stl/string.h>

#include "base/imported.h"
#include "base/ref.h"
#include "native/backward_call.h"
#include "native/executor.h"
#include "native/from_fx.h"
#include "runtime/stand_in.h"
#include "tape/memory.h"
#include "training/direct.h"

namespace nb = nanobind;

namespace gramme::api {
namespace {

/// Of the option's value: None stands for what is usual.
native::Cached cached_of(PyObject* option) {
  if (option == Py_None) return native::Cached::Little;
  return check(PyObject_IsTrue(option)) ? native::Cached::Much : native::Cached::Nothing;
}

nb::object from_graph_module(nb::object graph_module, nb::object caching_allocator) {
  try {
    const native::Settings settings{native::Trust::Unguarded, cached_of(caching_allocator.ptr())};
    return nb::steal(native::make_executor(native::from_fx(graph_module.ptr()), settings).release());
  } catch (const PythonError&) {
    throw nb::python_error();
  }
}

void require(nb::handle object) {
  if (native::is_executor(object.ptr())) return;
  PyErr_Format(PyExc_TypeError, "native_graph: expected what the native backend made, got %s",
               Py_TYPE(object.ptr())->tp_name);
  throw nb::python_error();
}

std::string tape(nb::object executor) {
  require(executor);
  return native::print_tapes(executor.ptr());
}

nb::object call_recomputing(nb::object executor, nb::tuple inputs, const std::vector<size_t>& arguments,
                            bool keeps_random) {
  require(executor);
  try {
    const std::span<PyObject* const> items(&PyTuple_GET_ITEM(inputs.ptr(), 0), inputs.size());
    return nb::steal(native::call_recomputing(executor.ptr(), items, arguments, keeps_random).release());
  } catch (const PythonError&) {
    throw nb::python_error();
  }
}

nb::dict counters(nb::object executor) {
  require(executor);
  const native::Counters counted = native::counters(executor.ptr());
  const native::Composition made_of = native::composition(executor.ptr());
  nb::dict result;
  result["calls"] = counted.calls;
  result["recorded"] = counted.recorded;
  result["stepwise"] = counted.stepwise;
  result["backwards"] = counted.backwards;
  result["typed"] = made_of.typed;
  result["boxed"] = made_of.boxed;
  result["views"] = made_of.views;
  result["modes"] = made_of.modes;
  result["python"] = made_of.python;
  return result;
}

nb::dict memory() {
  const native::MemoryStatistics counted = native::memory_statistics();
  nb::dict result;
  result["reused"] = counted.reused;
  result["carved"] = counted.carved;
  result["bound"] = counted.bound;
  result["medium"] = counted.medium.used;
  result["medium_idle"] = counted.medium.idle;
  result["large"] = counted.large.given;
  result["large_reused"] = counted.large.reused;
  result["large_kept"] = counted.large.kept;
  return result;
}

PyObject* option_name() {
  static PyObject* const name = intern("caching_allocator");
  return name;
}

}  // namespace

void bind_native(nb::module_& m) {
  native::note_backward();
  runtime::stand_in_for(take(PyObject_GetAttrString(imported("torch", "Tensor").get(), "backward")).get(),
                        &native::run_backward);
  nb::module_ native = m.def_submodule("native");
  native.def("from_graph_module", from_graph_module, nb::arg("graph_module"), nb::kw_only(),
             nb::arg("caching_allocator") = nb::none());
  native.def("direct_backwards", native::direct_backwards);
  native.def("memory", memory);
  native.def("tape", tape, nb::arg("graph"));
  native.def("counters", counters, nb::arg("graph"));
  native.def("call_recomputing", call_recomputing, nb::arg("graph"), nb::arg("inputs"), nb::arg("arguments"),
             nb::arg("keeps_random"));
}

bool is_native(PyObject* backend) { return PyObject_HasAttr(backend, option_name()); }

native::Backward backward_of(PyObject* backend) {
  Owned<> recorded = take(PyObject_GetAttrString(backend, "recorded_backward"));
  if (!check(PyObject_IsTrue(recorded.get()))) return native::Backward::Engine;
  Owned<> asked = take(PyObject_GetAttrString(backend, "is_asked_for_backward"));
  return check(PyObject_IsTrue(asked.get())) ? native::Backward::Recorded : native::Backward::RecordedOnCpu;
}

native::Cached cached_of_backend(PyObject* backend) {
  return cached_of(take(PyObject_GetAttr(backend, option_name())).get());
}

}  // namespace gramme::api
