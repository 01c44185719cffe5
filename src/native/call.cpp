// The hit path: placing inputs in a frame, running the tape with or without the GIL, taking the outputs, and
// translating exceptions.
#include "native/call.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include "aten/python.h"
#include "base/gil.h"
#include "base/signals.h"
#include "record/symbolic.h"
#include "tape/invoke.h"
#include "torch/names.h"

namespace gramme::native {
namespace {

/// An entry of a dict that is an attribute of the object, or null.
PyObject* entry(PyObject* object, PyObject* dict_name, PyObject* name) {
  Owned<> own = Owned<>::steal(PyObject_GenericGetDict(object, nullptr));
  PyObject* dict = own ? PyDict_GetItemWithError(own.get(), dict_name) : nullptr;
  PyObject* found = dict && PyDict_Check(dict) ? PyDict_GetItemWithError(dict, name) : nullptr;
  PyErr_Clear();
  return found;
}

Owned<> member(PyObject* module, PyObject* name) {
  static PyObject* const dicts[] = {of_torch::attribute(of_torch::Parameters), of_torch::attribute(of_torch::Buffers),
                                    of_torch::attribute(of_torch::Submodules)};
  for (PyObject* dict : dicts)
    if (PyObject* found = entry(module, dict, name)) return share(found);
  return take(PyObject_GetAttr(module, name));
}

/// Scope without the GIL, if `wanted`.
class Released {
 public:
  Released(Run& run, bool wanted) : run_(run) {
    if (wanted) run_.released = PyEval_SaveThread();
  }
  ~Released() {
    if (run_.released) PyEval_RestoreThread(run_.released);
    run_.released = nullptr;
  }
  Released(const Released&) = delete;

 private:
  Run& run_;
};

/// A frame from a pool, returned empty.
class BorrowedFrame {
 public:
  BorrowedFrame(FramePool& pool, const Tape& tape) : pool_(pool), frame_(pool.take(tape)) {}
  ~BorrowedFrame() {
    if (!clean_) frame_->clear();
    pool_.give_back(std::move(frame_));
  }
  BorrowedFrame(const BorrowedFrame&) = delete;
  Frame& operator*() const { return *frame_; }
  /// Call after a complete run.
  void finish(const Tape& tape, bool retained) {
    frame_->drop_inputs(tape, retained);
    clean_ = true;
  }

 private:
  FramePool& pool_;
  std::unique_ptr<Frame> frame_;
  bool clean_ = false;
};

/// False if a number computed from the inputs has no value.
bool place_inputs(const Tape& tape, Frame& frame, PyObject* const* inputs, bool retain) {
  for (size_t i = 0; i < tape.given(); ++i) {
    const Place& place = tape.inputs[i];
    const auto index = static_cast<size_t>(place.index);
    if (place.kind == Place::Object) {
      frame.objects[index] = share(inputs[i]);
    } else if (place.kind == Place::Number) {
      frame.numbers[index] = PyLong_AsLongLong(inputs[i]);
    } else if (retain) {
      frame.own[index] = aten::tensor_of(inputs[i]);
      frame.tensors[index] = &frame.own[index];  // the previous call may have borrowed its input
    } else {
      frame.tensors[index] = &aten::tensor_of(inputs[i]);
    }
  }
  return shape::run(tape.at_start, frame.numbers.data());
}

/// False if autocast would make other casts.
bool place_casts(const Tape& tape, Frame& frame, PyObject* const* inputs) {
  std::vector<at::Tensor> tensors(tape.given());
  for (const CastInput& cast : tape.casts) tensors[cast.input] = aten::tensor_of(inputs[cast.input]);
  {
    const GilReleased released;
    if (!add_casts(tape.casts, tensors)) return false;
  }
  for (size_t i = tape.given(); i < tape.inputs.size(); ++i)
    frame.own[static_cast<size_t>(tape.inputs[i].index)] = std::move(tensors[i]);
  return true;
}

/// True for a dual tensor of forward-mode AD. Locks the tensor.
bool has_tangent(PyObject* object) {
  const at::Tensor tensor = aten::tensor_of(object);
  const GilReleased released;
  return tensor._fw_grad(0).defined();
}

/// Sets a Python exception for the current C++ exception; needs the GIL.
[[noreturn]] void rethrow(const Program& program, size_t step, size_t* failed) {
  try {
    throw;
  } catch (const PythonError&) {
  } catch (...) {
    aten::set_python_error(std::current_exception());
  }
  note_origin(program, step, failed);
  throw PythonError();
}

/// Runs to the end, or until a signal is pending: its handler must run in the program's modes.
[[gnu::always_inline]] inline size_t run_on(const Tape& tape, Run& run, size_t first, bool straight, bool releases,
                                            size_t* at) {
  std::optional<at::AutoDispatchBelowADInplaceOrView> below;
  if (straight && !tape.inference) below.emplace();
  std::optional<c10::impl::ExcludeDispatchKeyGuard> casted;
  if (tape.has_casts) casted.emplace(c10::autocast_dispatch_keyset);
  Released released(run, releases);
  return tape.run(run, at, first, tape.instructions.size());
}

/// Stores new references to the values at the places; none if it throws.
void give(Run& run, std::span<const Place> wanted, PyObject** outputs) {
  size_t given = 0;
  try {
    for (; given < wanted.size(); ++given) outputs[given] = object_at(wanted[given], run).release();
  } catch (...) {
    while (given > 0) Owned<>::steal(outputs[--given]);
    throw;
  }
}

}  // namespace

bool is_plain_tensor(PyObject* object) {
  constexpr c10::DispatchKeySet kOdd =
      c10::python_ks | c10::functorch_transforms_ks | c10::DispatchKeySet(c10::DispatchKey::Functionalize);
  return object && aten::is_exact_tensor(object) && !aten::tensor_of(object).key_set().has_any(kOdd);
}

Owned<> module_attribute(PyObject* module, PyObject* dotted) {
  static PyObject* const dot = intern(".");
  Owned<> names = take(PyUnicode_Split(dotted, dot, -1));
  Owned<> found = share(module);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i)
    found = member(found.get(), PyList_GET_ITEM(names.get(), i));
  return found;
}

void note_origin(const Program& program, size_t step, size_t* failed) {
  const bool known = step < program.steps.size();
  if (failed)
    return void(*failed =
                    known && program.steps[step].node >= 0 ? static_cast<size_t>(program.steps[step].node) : step);
  if (!known) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Step& from = program.steps[step];
  const std::string note = "in " + from.name + (from.where.empty() ? "" : ", " + from.where);
  if (value && !Owned<>::steal(PyObject_CallMethod(value, "add_note", "s", note.c_str()))) PyErr_Clear();
  PyErr_Restore(type, value, traceback);
}

Outside::Outside(PyObject* object)
    : type(Py_TYPE(object)),
      keys(aten::tensor_of(object).key_set().raw_repr()),
      dtype(aten::tensor_of(object).scalar_type()),
      device(aten::tensor_of(object).device()),
      rank(aten::tensor_of(object).dim()),
      requires_grad(aten::tensor_of(object).requires_grad()),
      is_odd(has_tangent(object)) {}

Conditions::Conditions(const Program& program, PyObject* const* inputs, bool any_sizes, bool any_hooks)
    : any_hooks_(any_hooks), state_(state()) {
  for (size_t i = 0; i < static_cast<size_t>(program.inputs); ++i) {
    const bool tensor = aten::is_tensor(inputs[i]);
    specs_.push_back(tensor && !any_sizes ? aten::tensor_spec(inputs[i]) : nullptr);
    outsides_.push_back(tensor && any_sizes ? std::optional<Outside>(inputs[i]) : std::nullopt);
    numbers_.push_back(any_sizes && Numbers::fits(inputs[i]));
    for (size_t j = 0; tensor && j < i; ++j)
      if (inputs[i] == inputs[j]) same_.emplace_back(i, j);
  }
}

aten::GlobalState Conditions::state() const {
  const aten::GlobalState now = aten::GlobalState::read();
  return any_hooks_ ? now.but_for_hooks() : now;
}

bool Conditions::holds(size_t input, PyObject* object) const {
  if (specs_[input]) return aten::matches(*specs_[input], object);
  if (outsides_[input])
    return aten::is_tensor(object) && !outsides_[input]->is_odd && *outsides_[input] == Outside(object);
  return numbers_[input] ? Numbers::fits(object) : !aten::is_tensor(object);
}

bool Conditions::hold(PyObject* const* inputs) const {
  if (!(state() == *state_)) return false;
  for (size_t i = 0; i < specs_.size(); ++i)
    if (!holds(i, inputs[i])) return false;
  for (auto [i, j] : same_)
    if (inputs[i] != inputs[j]) return false;
  return true;
}

[[gnu::hot]] bool Recorded::call(PyObject* const* inputs, std::span<const Place> wanted, PyObject** outputs,
                                 size_t* failed) {
  const Tape& tape = *this->tape;  // the caller holds the executor, which owns this
  BorrowedFrame frame(frames, tape);
  const bool below_autograd = tape.below_autograd && unwatched();
  const bool straight = below_autograd && tape.all_direct;
  // Autograd's kernels may wait for the GIL while they hold a tensor's lock, so a thread with the GIL must not wait for
  // one.
  const bool releases = tape.releases_gil || !straight;
  const bool retains = releases || tape.has_python;
  if (!place_inputs(tape, *frame, inputs, retains)) return false;
  if (!tape.casts.empty() && !place_casts(tape, *frame, inputs)) return false;
  Run run = (*frame).run();
  run.below_autograd = below_autograd;
  run.looks = true;
  size_t at = 0;
  try {
    aten::with_warnings([&] {
      for (size_t next = run_on(tape, run, 0, straight, releases, &at); next < tape.instructions.size();) {
        look_for_signals();
        next = run_on(tape, run, next, straight, releases, &at);
      }
    });
  } catch (...) {
    rethrow(*tape.program, tape.instructions.empty() ? 0 : tape.instructions[at].step, failed);
  }
  give(run, wanted, outputs);
  frame.finish(tape, retains);
  return true;
}

bool Recorded::train(PyObject* const* inputs, bool whole, PyObject** outputs, size_t* failed,
                     std::span<const size_t> arguments) {
  std::vector<at::Tensor> given;
  given.reserve(training->flat().inputs.size());
  for (size_t i = 0; i < training->flat().given(); ++i) given.push_back(aten::tensor_of(inputs[i]));
  const std::optional<Training::Way> way = training->way(given);
  if (!way) return false;
  std::vector<at::Tensor> own;
  const Tape* made = nullptr;
  size_t step = 0;
  try {
    aten::with_warnings([&] {
      const GilReleased released;
      made = training->run(*way, given, arguments, own, &step);
    });
  } catch (...) {
    rethrow(*tape->program, step, failed);
  }
  if (!made) return false;
  std::vector<const at::Tensor*> tensors;
  tensors.reserve(own.size());
  for (const at::Tensor& tensor : own) tensors.push_back(&tensor);
  Run run{tensors.data(), own.data(), nullptr, nullptr, false, nullptr};
  give(run, whole ? std::span(made->output) : std::span(made->output[0].items), outputs);
  return true;
}

}  // namespace gramme::native
