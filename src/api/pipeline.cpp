// Binds the room `pipeline`: argument conversions, names of its autograd nodes in Python, and releases of the GIL.
#include "api/pipeline.h"

#include <ATen/ThreadLocalState.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Exceptions.h>  // sees pybind11: python_error
#include <torch/csrc/Stream.h>
#include <torch/csrc/autograd/python_cpp_function.h>  // sees pybind11: types of nodes

#include "aten/python.h"
#include "pipeline/checkpoint.h"
#include "pipeline/halves.h"
#include "pipeline/planner.h"
#include "pipeline/portal.h"
#include "pipeline/stream.h"

namespace nb = nanobind;

namespace gramme::api {
namespace {

using pipeline::variable_list;

// ---- Conversions

const at::Tensor& tensor_of(nb::handle object) {
  if (aten::is_tensor(object.ptr())) return aten::tensor_of(object.ptr());
  throw nb::type_error(nb::str("expected a tensor, got {}").format(object.type()).c_str());
}

at::Tensor tensor_or_none(nb::handle object) { return object.is_none() ? at::Tensor() : tensor_of(object); }

/// The tensor's Python object; None for an undefined tensor.
nb::object object_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return nb::none();
  try {
    return nb::steal(aten::object_of(tensor).release());
  } catch (const PythonError&) {
    throw nb::python_error();
  }
}

nb::tuple pair_of(const std::pair<at::Tensor, at::Tensor>& tensors) {
  return nb::make_tuple(object_of(tensors.first), object_of(tensors.second));
}

variable_list tensors_of(nb::handle sequence) {
  variable_list tensors;
  for (nb::handle item : sequence) tensors.push_back(tensor_of(item));
  return tensors;
}

nb::tuple tuple_of(const variable_list& tensors) {
  nb::list objects;
  for (const at::Tensor& tensor : tensors) objects.append(object_of(tensor));
  return nb::tuple(objects);
}

/// A stream of torch, or the CPU's for any other object.
c10::Stream stream_of(nb::handle object) {
  if (!THPStream_Check(object.ptr())) return pipeline::cpu_stream();
  auto* stream = reinterpret_cast<THPStream*>(object.ptr());
  return c10::Stream::unpack3(stream->stream_id, static_cast<c10::DeviceIndex>(stream->device_index),
                              static_cast<c10::DeviceType>(stream->device_type));
}

/// Turns errors of torch and of the program into Python exceptions.
template <class Call>
auto translated(Call&& call) {
  try {
    return call();
  } catch (python_error& error) {
    error.restore();
  } catch (const c10::Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  }
  throw nb::python_error();
}

// ---- Nodes as Python sees them

/// Registers the Python class of nodes of type T: `type(tensor.grad_fn)`.
template <class T>
nb::object register_node(const char* name) {
  static PyTypeObject type{};
  torch::autograd::_initFunctionPyTypeObject(type, name, nullptr, nullptr);
  torch::autograd::registerCppFunction(typeid(T), &type);
  return nb::borrow(reinterpret_cast<PyObject*>(&type));
}

void bind_nodes(nb::module_& m) {
  m.attr("ForkBackward") = register_node<pipeline::ForkBackward>("ForkBackward");
  m.attr("JoinBackward") = register_node<pipeline::JoinBackward>("JoinBackward");
  m.attr("CopyBackward") = register_node<pipeline::CopyBackward>("CopyBackward");
  m.attr("WaitBackward") = register_node<pipeline::WaitBackward>("WaitBackward");
  m.attr("PortalBlueBackward") = register_node<pipeline::PortalBlueBackward>("PortalBlueBackward");
  m.attr("PortalOrangeBackward") = register_node<pipeline::PortalOrangeBackward>("PortalOrangeBackward");
  m.attr("PortalCopyBackward") = register_node<pipeline::PortalCopyBackward>("PortalCopyBackward");
  m.attr("CheckpointBackward") = register_node<pipeline::CheckpointBackward>("CheckpointBackward");
  m.attr("RecomputeBackward") = register_node<pipeline::RecomputeBackward>("RecomputeBackward");
}

// ---- Order and streams

nb::object phony(nb::handle device, bool requires_grad) {
  if (!THPDevice_Check(device.ptr())) throw nb::type_error("get_phony: expected a torch.device");
  return object_of(pipeline::phony(reinterpret_cast<THPDevice*>(device.ptr())->device, requires_grad));
}

nb::tuple fork(nb::handle lane) { return pair_of(pipeline::fork(tensor_of(lane))); }

nb::object join(nb::handle lane, nb::handle phony) {
  return object_of(pipeline::join(tensor_of(lane), tensor_of(phony)));
}

template <class Call>
nb::tuple between(nb::handle previous, nb::handle next, nb::handle tensors, Call call) {
  const c10::Stream from = stream_of(previous), to = stream_of(next);
  const variable_list given = tensors_of(tensors);
  return tuple_of(translated([&] {
    nb::gil_scoped_release released;
    return call(from, to, given);
  }));
}

nb::tuple copy(nb::handle previous, nb::handle next, nb::args tensors) {
  return between(previous, next, tensors, [](const c10::Stream& from, const c10::Stream& to, const variable_list& all) {
    return pipeline::copy(from, to, all);
  });
}

nb::tuple wait(nb::handle previous, nb::handle next, nb::args tensors) {
  return between(previous, next, tensors, [](const c10::Stream& from, const c10::Stream& to, const variable_list& all) {
    return pipeline::wait(from, to, all);
  });
}

void wait_stream(nb::handle waiting, nb::handle other) {
  const c10::Stream a = stream_of(waiting), b = stream_of(other);
  nb::gil_scoped_release released;
  pipeline::wait(a, b);
}

void record_stream(nb::handle tensor, nb::handle stream) { pipeline::record(tensor_of(tensor), stream_of(stream)); }

void bind_order(nb::module_& m) {
  m.def("get_phony", phony, nb::arg("device"), nb::kw_only(), nb::arg("requires_grad"));
  m.def("fork", fork, nb::arg("input"));
  m.def("join", join, nb::arg("input"), nb::arg("phony"));
  m.def("copy", copy, nb::arg("prev_stream"), nb::arg("next_stream"), nb::arg("input"));
  m.def("wait", wait, nb::arg("prev_stream"), nb::arg("next_stream"), nb::arg("input"));
  m.def("wait_stream", wait_stream, nb::arg("source"), nb::arg("target"));
  m.def("record_stream", record_stream, nb::arg("tensor"), nb::arg("stream"));
}

// ---- Portals

/// Nodes refer to the C++ portal, never to this Python object.
struct PythonPortal {
  pipeline::PortalPointer portal;
  PythonPortal(nb::handle tensor, int64_t life)
      : portal(std::make_shared<pipeline::Portal>(tensor_or_none(tensor), life)) {}
};

nb::object portal_copy(PythonPortal& self, nb::handle previous, nb::handle next, nb::handle phony) {
  const c10::Stream from = stream_of(previous), to = stream_of(next);
  const at::Tensor given = tensor_of(phony);
  return object_of(translated([&] {
    nb::gil_scoped_release released;
    return pipeline::copy(self.portal, from, to, given);
  }));
}

nb::object portal_orange(PythonPortal& self, nb::handle phony) {
  return object_of(translated([&] { return pipeline::orange(self.portal, tensor_of(phony)); }));
}

void bind_portal(nb::module_& classes, nb::module_& m) {
  nb::class_<PythonPortal>(classes, "Portal")
      .def(nb::init<nb::handle, int64_t>(), nb::arg("tensor").none(), nb::arg("tensor_life"))
      .def_prop_ro("tensor", [](PythonPortal& self) { return object_of(self.portal->tensor()); })
      .def_prop_ro("grad", [](PythonPortal& self) { return object_of(self.portal->grad()); })
      .def_prop_ro("tensor_life", [](PythonPortal& self) { return self.portal->life(); })
      .def(
          "put_tensor",
          [](PythonPortal& self, nb::handle tensor, int64_t life) {
            self.portal->put_tensor(tensor_or_none(tensor), life);
          },
          nb::arg("tensor").none(), nb::arg("tensor_life"))
      .def("use_tensor", [](PythonPortal& self) { return object_of(self.portal->use_tensor()); })
      .def("check_tensor_life", [](PythonPortal& self) { self.portal->require_life(); })
      .def(
          "put_grad", [](PythonPortal& self, nb::handle grad) { self.portal->put_grad(tensor_of(grad)); },
          nb::arg("grad"))
      .def("use_grad", [](PythonPortal& self) { return object_of(self.portal->use_grad()); })
      .def("blue", [](PythonPortal& self) { return object_of(pipeline::blue(self.portal)); })
      .def("orange", portal_orange, nb::arg("phony"))
      .def("copy", portal_copy, nb::arg("prev_stream"), nb::arg("next_stream"), nb::arg("phony"));
  m.def("blue", [](PythonPortal& self, nb::handle tensor) {
    return object_of(pipeline::blue(self.portal, tensor_of(tensor)));
  });
}

// ---- Checkpoints

/// A Python callable that takes the GIL to be called and to be released, on any thread.
class Callable {
 public:
  explicit Callable(nb::object function) : function_(std::move(function)) {}
  Callable(const Callable&) = delete;
  Callable& operator=(const Callable&) = delete;
  ~Callable() {
    if (!nb::is_alive()) {
      function_.release();
      return;
    }
    nb::gil_scoped_acquire gil;
    function_.reset();
  }

  variable_list operator()(const variable_list& inputs) const {
    nb::gil_scoped_acquire gil;
    try {
      return tensors_of(function_(*tuple_of(inputs)));
    } catch (nb::python_error& error) {
      error.restore();
    } catch (const nb::builtin_exception& error) {
      PyErr_SetString(PyExc_TypeError, error.what());
    }
    python_error error;  // in the form that the engine passes between threads
    error.persist();
    throw error;
  }

 private:
  nb::object function_;
};

struct PythonCheckpoint {
  std::shared_ptr<pipeline::Checkpoint> checkpoint;
};

/// (checkpoint or None, results)
nb::tuple checkpoint(nb::object function, nb::handle inputs) {
  auto callable = std::make_shared<Callable>(std::move(function));
  const variable_list given = tensors_of(inputs);
  pipeline::Checkpointed made = translated([&] {
    return pipeline::checkpoint([callable](const variable_list& tensors) { return (*callable)(tensors); }, given);
  });
  nb::object shared = made.checkpoint ? nb::cast(PythonCheckpoint{made.checkpoint}) : nb::none();
  return nb::make_tuple(shared, tuple_of(made.outputs));
}

nb::object recompute(const PythonCheckpoint& checkpoint, nb::handle phony) {
  return object_of(pipeline::recompute(checkpoint.checkpoint, tensor_of(phony)));
}

void bind_checkpoint(nb::module_& classes, nb::module_& m) {
  nb::class_<PythonCheckpoint>(classes, "Checkpoint");
  m.def("checkpoint", checkpoint, nb::arg("function"), nb::arg("inputs"));
  m.def("recompute", recompute, nb::arg("checkpoint"), nb::arg("phony"));
  m.def("is_checkpointing", [] { return pipeline::runs().checkpointing; });
  m.def("is_recomputing", [] { return pipeline::runs().recomputing; });
  m.def("set_runs", [](bool checkpointing, bool recomputing) {
    const pipeline::Runs before = pipeline::runs();
    pipeline::runs() = {checkpointing, recomputing};
    return std::pair(before.checkpointing, before.recomputing);
  });
}

// ---- Halves of a backward

using Half = void (pipeline::Halves::*)(const variable_list&, const variable_list&);

template <Half half>
void run_half(pipeline::Halves& halves, nb::handle roots, nb::handle gradients) {
  const variable_list tensors = tensors_of(roots), given = tensors_of(gradients);
  if (tensors.size() != given.size()) throw nb::value_error("each root needs a gradient");
  translated([&] {
    const nb::gil_scoped_release no_gil;
    (halves.*half)(tensors, given);
  });
}

void bind_halves(nb::module_& m) {
  nb::class_<pipeline::Halves>(m, "Halves")
      .def(
          "__init__",
          [](pipeline::Halves* self, nb::handle roots, nb::handle inputs) {
            new (self) pipeline::Halves(tensors_of(roots), tensors_of(inputs));
          },
          nb::arg("roots"), nb::arg("inputs"))
      .def_prop_ro("refusal", &pipeline::Halves::refusal)
      .def("run_inputs", run_half<&pipeline::Halves::run_inputs>, nb::arg("roots"), nb::arg("gradients"))
      .def("run_weights", run_half<&pipeline::Halves::run_weights>, nb::arg("roots"), nb::arg("gradients"));
}

// ---- Threads

/// The modes of the thread that made it, for calls on other threads.
struct ThreadState {
  at::ThreadLocalState state;
  nb::object call(nb::handle function) const {
    const at::ThreadLocalStateGuard guard(state);
    return function();
  }
};

// ---- Plans

/// (first operation of each stage except the first, length of a step)
std::pair<std::vector<int64_t>, int64_t> plan_cuts(std::vector<int64_t> cost, std::vector<int64_t> moving,
                                                   std::vector<int64_t> last_use, std::vector<int64_t> memory,
                                                   std::vector<bool> may_cut, std::vector<bool> must_cut,
                                                   int64_t stages, int64_t micro_batches,
                                                   std::optional<int64_t> most_memory) {
  pipeline::Wanted wanted{.stages = stages, .micro_batches = micro_batches};
  if (most_memory) wanted.most_memory = *most_memory;
  const pipeline::Cuts cuts = pipeline::plan_cuts({std::move(cost), std::move(moving), std::move(last_use),
                                                   std::move(memory), std::move(may_cut), std::move(must_cut)},
                                                  wanted);
  return {cuts.first, cuts.step};
}

}  // namespace

void bind_pipeline(nb::module_& m) {
  nb::module_ pipeline = m.def_submodule("pipeline");
  bind_nodes(pipeline);
  bind_order(pipeline);
  bind_portal(m, pipeline);
  bind_checkpoint(m, pipeline);
  bind_halves(m);
  pipeline.def("plan_cuts", plan_cuts, nb::kw_only(), nb::arg("cost"), nb::arg("moving"), nb::arg("last_use"),
               nb::arg("memory"), nb::arg("may_cut"), nb::arg("must_cut"), nb::arg("stages"), nb::arg("micro_batches"),
               nb::arg("most_memory") = nb::none());
  nb::class_<ThreadState>(m, "ThreadState").def(nb::init<>()).def("call", &ThreadState::call, nb::arg("function"));
}

}  // namespace gramme::api
