// Observes a run's calls below the dispatch, makes plans of them, and runs their tapes.
#include "native/local_run.h"

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <bit>

#include "aten/python.h"
#include "base/error.h"
#include "base/gil.h"
#include "base/shared.h"
#include "base/signals.h"
#include "native/call.h"
#include "native/local_backward.h"
#include "record/targets.h"
#include "tape/stepper.h"
#include "torch/names.h"
#include "training/forward_call.h"

namespace gramme::native {
namespace {

/// The number of keys of a run.
constexpr size_t kPlans = 8;

/// DTensor.from_local(...) that asks no other process. With run_check the processes compare sizes past the dispatcher.
bool is_from_local(const Step& step) {
  static PyObject* const name = intern("from_local");
  static PyObject* const check = intern("run_check");
  PyObject* const type = of_torch::if_loaded(of_torch::Dtensor);
  if (!type || step.kind != Step::Function) return false;
  const Owned<> function = Owned<>::steal(PyObject_GetAttr(type, name));
  if (!function) PyErr_Clear();
  if (step.target.get() != function.get() || step.arguments.size() > 3) return false;
  return std::ranges::all_of(step.keywords, [](const auto& keyword) {
    return PyUnicode_Compare(keyword.first.get(), check) != 0 || keyword.second.object.get() == Py_False;
  });
}

/// True if plain tensors are mixed with distributed ones, which DTensor's dispatch allows in some contexts.
bool takes_plain(const Step& step, const Stepper& stepper) {
  bool any = false;
  each_value(step, [&](ValueId value) { any |= is_plain_tensor(stepper.value(value)); });
  return any;
}

/// True for a plain or distributed tensor, or one that waits for a collective.
bool is_known(PyObject* object) {
  return is_plain_tensor(object) || is_distributed(object) ||
         reinterpret_cast<PyObject*>(Py_TYPE(object)) == class_of_waiting();
}

bool gives_tensors(PyObject* object) {
  if (is_known(object)) return true;
  if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) return false;
  return std::all_of(PySequence_Fast_ITEMS(object), PySequence_Fast_ITEMS(object) + PySequence_Fast_GET_SIZE(object),
                     is_known);
}

/// The edges for the gradients of inputs, in order.
torch::autograd::edge_list edges_of(const LocalKey& key, std::span<PyObject* const> inputs) {
  torch::autograd::edge_list edges;
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (key.inputs[i].requires_grad) tensors.push_back(aten::tensor_of(inputs[i]));
  const GilReleased released;  // finding edges locks the tensor
  for (const at::Tensor& tensor : tensors) edges.push_back(torch::autograd::impl::gradient_edge(tensor));
  return edges;
}

}  // namespace

std::shared_ptr<LocalRun> LocalRun::make(Program program, bool trains) {
  const std::shared_ptr<LocalRun> made = with_gil(new LocalRun(std::move(program), trains));
  Targets targets;
  const Program& own = made->program_;
  for (size_t i = 0; i < own.steps.size(); ++i) {
    made->waits_.push_back(wait_for_local(own, i));
    if (!made->waits_[i] && !is_from_local(own.steps[i]) && !targets.of(own.steps[i]).transparent) return nullptr;
  }
  return made;
}

std::vector<Owned<>> LocalRun::steps(PyObject* const* inputs, size_t* failed, bool* odd) const {
  Stepper stepper(program_, inputs);
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    *failed = i;
    look_for_signals();
    const Step& step = program_.steps[i];
    if (waits_[i]) {
      stepper.set(program_.result(i), waited(*waits_[i], stepper.value(step.arguments[0].value)));
    } else {
      *odd |= !is_from_local(step) && takes_plain(step, stepper);
      *odd |= !gives_tensors(stepper.run(i));
    }
    stepper.drop_after(i);
  }
  const Owned<> output = stepper.output();
  std::vector<Owned<>> outputs;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(output.get()); ++i)
    outputs.push_back(share(PyTuple_GET_ITEM(output.get(), i)));
  return outputs;
}

bool LocalRun::run(std::span<PyObject* const> inputs, std::vector<Owned<>>& outputs, size_t* failed) {
  Call call{inputs, {}, {}, outputs, failed};
  std::optional<LocalKey> key = LocalKey::read(inputs, call.locals);
  if (!key || (key->differentiable && !trains_)) return false;
  if (key->differentiable) call.edges = edges_of(*key, inputs);
  if (std::ranges::any_of(call.edges, is_listened_to)) return false;
  const std::vector<std::shared_ptr<LocalPlan>> plans = plans_;  // specifications compare themselves in Python
  const auto plan = std::ranges::find_if(plans, [&](const auto& known) { return known->key == *key; });
  if (plan != plans.end()) {
    if (!(*plan)->why_not.empty()) return false;
    replay(*plan, call);
    return true;
  }
  if (plans.size() >= kPlans || (key->differentiable && !std::has_single_bit(++starts_))) return false;
  observe(std::move(*key), call);
  return true;
}

void LocalRun::observe(LocalKey key, Call& call) {
  const std::shared_ptr<LocalCalls> calls = with_gil(new LocalCalls());
  calls->key = std::move(key);
  calls->recorder = std::make_unique<Recorder>(Apart::Composites, false);
  calls->recorder->pass_over_ranges();
  calls->recorder->look_below_wrappers();
  for (const at::Tensor& local : call.locals)
    calls->inputs.push_back(local.defined() ? calls->recorder->input(local, false) : kNone);
  bool odd = false;
  {
    const WithoutCollection no_finalizers;  // operators run by finalizers would be observed
    const Recorder::Watch watch(*calls->recorder);
    call.outputs = steps(call.inputs.data(), call.failed, &odd);
  }
  calls->recorder->take(calls->observed);
  if (odd) return refuse(calls->key, "a step does more than turn distributed tensors into others");
  if (const char* why = find_ends(*calls, call.locals, call.outputs)) return refuse(calls->key, why);
  if (calls->key.differentiable) {
    call.outputs[0] = hang(shared_from_this(), calls, std::move(call.edges), call.outputs[0].get());
    return;
  }
  std::string why;
  auto parts =
      ConvertedTape::convert(*calls->recorder, calls->observed, {calls->inputs, {}, true}, calls->outputs, why);
  if (!parts) return refuse(calls->key, std::move(why));
  const std::shared_ptr<LocalPlan> plan = with_gil(new LocalPlan());
  plan->forward = std::make_unique<const ConvertedTape>(std::move(*parts));
  plan->key = calls->key;
  add(plan);
}

/// Finds the registers of the outputs. Returns why there is no plan, or null: not if outputs or inputs share memory,
/// which the program may write.
const char* LocalRun::find_ends(LocalCalls& calls, const std::vector<at::Tensor>& locals,
                                const std::vector<Owned<>>& outputs) {
  const Recorder& recorder = *calls.recorder;
  for (size_t i = 0; i < locals.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (locals[i].defined() && locals[i].is_same(locals[j])) return "two inputs are the same";
  if (calls.key.differentiable && outputs.size() != 1) return "there are several outputs";
  std::vector<const c10::StorageImpl*> storages;
  for (const at::Tensor& local : locals)
    if (local.defined()) storages.push_back(local.storage().unsafeGetStorageImpl());
  for (const Owned<>& object : outputs) {
    if (!is_plain_tensor(object.get())) return "an output is no plain tensor";
    const at::Tensor& output = aten::tensor_of(object.get());
    const c10::StorageImpl* const storage = output.storage().unsafeGetStorageImpl();
    if (std::ranges::find(storages, storage) != storages.end()) return "an output shares memory";
    storages.push_back(storage);
    Register found = recorder.find(output);
    const aten::TensorType* const type = aten::type_below_autograd(output, true);
    for (Register r = recorder.registers(); found == kNone && r-- > 0;)
      if (recorder.seen(r).storage == storage && recorder.seen(r).type == type) found = r;
    if (found == kNone) return "an output is not made by operators";
    calls.outputs.push_back(found);
    if (output.requires_grad() != calls.key.differentiable) return "an output needs no gradient";
  }
  return nullptr;
}

void LocalRun::replay(const std::shared_ptr<LocalPlan>& plan, Call& call) {
  ++plan->runs;
  std::vector<at::Tensor> made;
  *call.failed = 0;
  try {
    aten::with_warnings([&] {
      const GilReleased released;
      std::vector<at::Tensor> given;
      for (const BackwardSource& source : plan->forward->sources())
        given.push_back(call.locals[static_cast<size_t>(source.index)]);
      made = plan->forward->run(std::move(given));
    });
  } catch (const PythonError&) {
    throw;
  } catch (...) {
    aten::set_python_error(std::current_exception());
    throw PythonError();
  }
  if (plan->backward) {
    call.outputs.push_back(
        hang(shared_from_this(), plan, std::move(call.edges), call.inputs, call.locals, std::move(made)));
    return;
  }
  for (at::Tensor& output : made) call.outputs.push_back(aten::object_of(std::move(output)));
}

void LocalRun::add(std::shared_ptr<LocalPlan> plan) {
  const auto known = std::ranges::find_if(plans_, [&](const auto& other) { return other->key == plan->key; });
  if (known == plans_.end()) return plans_.push_back(std::move(plan));
  plan->runs += (*known)->runs;
  *known = std::move(plan);
}

void LocalRun::refuse(const LocalKey& key, std::string why) {
  const std::shared_ptr<LocalPlan> plan = with_gil(new LocalPlan());
  plan->key = key;
  plan->why_not = std::move(why);
  add(plan);
}

uint64_t LocalRun::trained() const {
  uint64_t count = 0;
  for (const auto& plan : plans_) count += plan->key.differentiable ? plan->runs : 0;
  return count;
}

std::string LocalRun::print() const {
  std::string text;
  for (const auto& plan : plans_) {
    text += "on local tensors, " + std::to_string(plan->runs) + " times";
    if (!plan->why_not.empty()) {
      text += ", no more: " + plan->why_not + "\n";
      continue;
    }
    text += ": " + plan->forward->tape().print();
    if (plan->backward) text += "backward: " + plan->backward->tape().print();
  }
  return text;
}

}  // namespace gramme::native
