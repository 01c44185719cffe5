// One Fill object per call: makes fakes, runs the call under watch, describes results and writes, and classifies
// failures.
#include "meta/fill.h"

#include <c10/core/GradMode.h>

#include <optional>

#include "aten/dispatched.h"
#include "aten/python.h"
#include "base/imported.h"
#include "base/interruption.h"
#include "base/once.h"
#include "base/signals.h"
#include "meta/batched.h"
#include "meta/build.h"
#include "meta/description.h"
#include "meta/fakes.h"
#include "meta/overflow.h"
#include "meta/pattern.h"
#include "meta/ragged.h"
#include "meta/silence.h"
#include "meta/targets.h"
#include "meta/watch.h"
#include "torch/names.h"

namespace gramme::meta {
namespace {

int64_t version_of(const at::Tensor& tensor) { return tensor.is_inference() ? 0 : tensor._version(); }

/// Scope with the mode entered; restores grad mode.
class Entered {
 public:
  Entered(PyObject* mode, bool asks) : fakes_(mode, asks) {}

 private:
  c10::AutoGradMode grad_{c10::GradMode::is_enabled()};
  EnteredFakes fakes_;
};

/// Scope with the environment entered, if there is one.
class Inside {
 public:
  explicit Inside(Environment* environment) : environment_(environment) {
    if (environment_) take(PyObject_CallMethod(environment_->get(), "__enter__", nullptr));
  }
  ~Inside() {
    if (!environment_) return;
    ErrorState pending;
    Owned<> done =
        Owned<>::steal(PyObject_CallMethod(environment_->get(), "__exit__", "OOO", Py_None, Py_None, Py_None));
    if (!done) PyErr_Clear();
  }
  Inside(const Inside&) = delete;

 private:
  Environment* environment_;
};

class Fill {
 public:
  Fill(const Call& call, const std::vector<Level>& levels, shape::Assumptions* assumptions)
      : call_(call), levels_(levels), assumptions_(assumptions) {
    if (!takes_expressions(call)) return;
    environment_ = &own_environment_.emplace(*assumptions);
    fakes_ = &own_fakes_.emplace(*environment_);
  }
  Fill(const Call& call, Environment& environment, Fakes& fakes, shape::Assumptions& assumptions)
      : call_(call), assumptions_(&assumptions), environment_(&environment), fakes_(&fakes), lasting_(true) {}

  const std::string& undecided() const { return undecided_; }

  /// For a call on existing objects.
  Fill(const Call& call, const std::function<Owned<>(const Argument&)>& object) : call_(call), object_(&object) {}

  Filled run() {
    Filled filled = filled_in();
    const bool numbers = last_ragged() != ragged_;  // another such call makes another ragged size
    filled.lasting &= !asks_program_ && !wraps_ && !numbers;
    filled.repeats = wraps_ && !asks_program_ && !filled.outcome.error && !numbers;
    return filled;
  }

 private:
  Filled filled_in() {
    const SignalsHeld held;
    WithoutCollection no_finalizers;  // their operators would run on fakes
    try {
      take_inputs();
      if (outcome_.message.empty()) return run_on_fakes();
    } catch (const PythonError&) {
      return failed();
    } catch (const OutOfData& error) {
      Filled filled{inexpressible(error.what())};
      filled.outcome.data_dependent = true;
      return filled;
    } catch (const Inexpressible& error) {
      return {inexpressible(error.what())};
    } catch (const std::exception& error) {  // from c10, for a record that cannot be faked
      outcome_.message = error.what();
    }
    return unsupported();
  }

  void take_inputs() {
    int leaf = 0;
    each_leaf(call_, [&](const Argument& argument) {
      if (argument.kind != Argument::Tensor) return void(has_number_ |= !argument.expr);
      if (!find(argument.node)) add_input(argument, leaf);
      ++leaf;
    });
  }

  Filled run_on_fakes() {
    Quiet quiet;
    Owned<> value;
    {
      Builder builder([&](const Argument& argument) {
        if (argument.kind == Argument::Tensor) return find(argument.node)->fake;
        if (object_) return (*object_)(argument);
        return argument.expr ? environment_->number(argument.expr) : share(argument.object);
      });
      Owned<> args, kwargs;
      auto build = [&] {
        args = builder.args(call_);
        kwargs = builder.kwargs(call_);
      };
      if (levels_.empty()) build();
      Watch watch;
      Silence silence;
      Inside environment(environment_);
      std::optional<Entered> entered;
      if (!object_) entered.emplace(fakes_->mode(), std::ranges::any_of(inputs_, takes_jagged));
      EnteredLevels levels(levels_);
      if (!levels_.empty()) {
        wrap_inputs();
        build();
      }
      aten::OnFakes dispatched;
      value = Owned<>::steal(run_silently(call_, args.get(), kwargs.get()));
      outcome_.operators = static_cast<uint16_t>(dispatched.count());
      outcome_.random = watch.random;
      outcome_.runs_python = watch.runs_python;
      asks_program_ = watch.asks_program;
      outcome_.warns = silence.warned || watch.warns;
      outcome_.may_raise = watch.may_raise || outcome_.warns;  // filters may turn a warning into an error
      outcome_.opaque = watch.opaque;
      written_ = std::move(watch.written);
      if (value && !levels_.empty()) tell(value.get());  // wrappers know their levels only while these exist
    }
    if (!value) return failed();
    if (levels_.empty()) tell(value.get());
    if (environment_) outcome_.guards = environment_->guards();
    outcome_.may_raise |= overflows(call_, outcome_) || (!lasting_ && is_huge(outcome_.result, assumptions_));
    if (!described_) return unsupported();
    return {std::move(outcome_), object_ ? std::move(value) : Owned<>()};
  }

  /// Wraps the inputs in their levels.
  void wrap_inputs() {
    for (FakeInput& input : inputs_)
      if (input.record->inner) input.fake = aten::object_of(wrapped(input.tensor(), *input.record));
  }

  void tell(PyObject* value) {
    Description description(inputs_, environment_, has_number_);
    described_ = description.describe(value, outcome_.result);
    outcome_.message = std::move(description.message);
    if (!object_) find_mutations();
  }

  FakeInput* find(const graph::Node* node) {
    for (FakeInput& input : inputs_)
      if (input.node == node) return &input;
    return nullptr;
  }

  void add_input(const Argument& argument, int leaf) {
    PyTypeObject* type = argument.record->type;
    if (argument.record->layout != static_cast<int8_t>(c10::kStrided) && !argument.record->opaque)
      outcome_.message = "a tensor argument is not strided";
    else if (c10::isQIntType(static_cast<c10::ScalarType>(argument.record->dtype)))
      outcome_.message = "a tensor argument is quantized";
    else if (argument.record->context && (object_ || lasting_ || !levels_.empty()))
      outcome_.message = std::string(type->tp_name) + ", inside a transform or beside sizes that come out of data";
    else if (!aten::is_exact_tensor_type(type) && !argument.record->context)
      outcome_.message = std::string("a tensor argument is a ") + type->tp_name;
    else if (argument.record->symbolic && argument.record->inner)
      throw Inexpressible("inside a transform");
    else if (!object_ && !can_wrap(*argument.record, levels_))
      outcome_.message = "a tensor of a transform that was left";
    if (!outcome_.message.empty()) return;
    if (object_) {
      Owned<> live = (*object_)(argument);
      const c10::StorageImpl* storage = storage_of(innermost(aten::tensor_of(live.get())));
      inputs_.push_back({argument.node, leaf, argument.record, std::move(live), nullptr, 0, storage});
      return;
    }
    FakeInput input{argument.node, leaf, argument.record, fake(argument), nullptr, 0, nullptr};
    if (argument.record->context && !take_apart(input)) return;
    if (environment_) input.before = read(input);
    input.version = version_of(input.physical());
    input.storage = storage_of(input.physical());
    inputs_.push_back(std::move(input));
  }

  /// Finds a wrapper's inner tensors; false if the class does not rebuild the same wrapper from them.
  bool take_apart(FakeInput& input) {
    if (!wraps_) wraps_.emplace(fakes_->mode());
    input.parts = parts_of(input.fake.get());
    if (input.record->symbolic || record_of_wrapper(input.fake.get(), environment_) == input.record) return true;
    outcome_.message = std::string(input.record->type->tp_name) + ", whose __tensor_unflatten__ makes another tensor";
    return false;
  }

  static bool takes_jagged(const FakeInput& input) { return input.record->opaque; }

  /// True if the class replaced inner tensors.
  static bool is_remade(const FakeInput& input) {
    return input.record->context && parts_of(input.fake.get()).tensors != input.parts.tensors;
  }

  Owned<> fake(const Argument& argument) {
    if (lasting_) return fakes_->fake_of(argument.node, argument.record);
    const Record* innermost = physical(argument.record);
    size_t before = 0;
    for (const FakeInput& other : inputs_) before += physical(other.record) == innermost;
    return fakes_->fake(innermost, before);
  }

  // ---- what was written

  void find_mutations() {
    for (const FakeInput& input : inputs_) {
      const at::Tensor now = input.physical();
      const Record* record = read(input);
      bool written =
          written_.count(input.storage) || version_of(now) != input.version || storage_of(now) != input.storage;
      for (const c10::StorageImpl* storage : input.parts.storages) written |= written_.contains(storage);
      if (is_remade(input)) {
        outcome_.message = std::string(input.record->type->tp_name) + ", whose inner tensors are replaced";
        described_ = false;
      }
      if (record == input.before) record = input.record;
      if (!written && record == input.record) continue;
      auto& changes = !written && became_ragged(input.record, record) ? outcome_.ragged : outcome_.mutations;
      changes.push_back({input.leaf, record});
    }
    if (!outcome_.mutations.empty() || !outcome_.ragged.empty()) forget_fakes();
  }

  void forget_fakes() {
    if (object_) return;
    for (const FakeInput& input : inputs_) fakes_->forget(physical(input.record));
  }

  // ---- failures

  Filled unsupported() {
    std::string message = std::move(outcome_.message);
    outcome_ = Outcome();
    outcome_.error = true;
    outcome_.message = std::move(message);
    return {std::move(outcome_)};
  }

  /// True for exceptions about limits of fakes: with real data the call may succeed.
  static bool is_limit_of_fakes(PyObject* type) {
    PyObject* const operator_ = of_torch::object(of_torch::UnsupportedOperatorException);
    PyObject* const fake = of_torch::object(of_torch::UnsupportedFakeTensorException);
    return PyErr_GivenExceptionMatches(type, PyExc_NotImplementedError) ||
           PyErr_GivenExceptionMatches(type, operator_) || PyErr_GivenExceptionMatches(type, fake);
  }

  static bool is_data_dependent(PyObject* type) {
    PyObject* const output = of_torch::object(of_torch::DataDependentOutputException);
    PyObject* const shape = of_torch::object(of_torch::DynamicOutputShapeException);
    return PyErr_GivenExceptionMatches(type, output) || PyErr_GivenExceptionMatches(type, shape);
  }

  static bool is_undecided(PyObject* type) {
    PyObject* const undecided = of_torch::object(of_torch::GuardOnDataDependentSymNode);
    return PyErr_GivenExceptionMatches(type, undecided);
  }

  Filled failed() {
    forget_fakes();
    if (is_interruption()) throw PythonError();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Owned<> kind = Owned<>::steal(type), error = Owned<>::steal(value), where = Owned<>::steal(traceback);
    Owned<> text = Owned<>::steal(PyObject_Str(error ? error.get() : Py_None));
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    Filled result;
    result.outcome.error = true;
    result.outcome.runs_python = outcome_.runs_python;
    result.outcome.message = std::string(reinterpret_cast<PyTypeObject*>(type)->tp_name) + ": " + (utf8 ? utf8 : "");
    PyErr_Clear();
    note_guards(result.outcome);
    if (is_undecided(type)) undecided_ = utf8 ? utf8 : "";
    bool reads_data = of_torch::says(result.outcome.message, of_torch::NoData);
    result.outcome.data_dependent = reads_data || is_data_dependent(type);
    result.outcome.raised = !outcome_.warns && !result.outcome.data_dependent && !is_limit_of_fakes(type);
    for (PyObject* passing : {PyExc_MemoryError, PyExc_RecursionError, PyExc_Warning})
      if (PyErr_GivenExceptionMatches(type, passing)) result.lasting = false;
    return result;
  }

  const Record* read(const FakeInput& input) const {
    const at::Tensor& tensor = input.tensor();
    if (input.record->context) return record_of_wrapper(input.fake.get(), environment_);
    return with_ragged_of(record_of_tensor(tensor, fake_device_of(tensor), input.record->type, environment_),
                          input.fake.get());
  }

  /// Adds the guards under which the call raises.
  void note_guards(Outcome& outcome) {
    try {
      if (environment_) outcome.guards = environment_->guards();
    } catch (const Inexpressible&) {
      outcome.inexpressible = true;
    }
  }

  const Call& call_;
  const std::vector<Level> levels_;
  shape::Assumptions* assumptions_ = nullptr;
  const std::function<Owned<>(const Argument&)>* object_ = nullptr;  // set for calls on existing objects
  BorrowedFakes static_fakes_;
  std::optional<Environment> own_environment_;
  std::optional<Fakes> own_fakes_;
  Environment* environment_ = nullptr;  // set if sizes or numbers are expressions
  Fakes* fakes_ = &*static_fakes_;
  const int32_t ragged_ = last_ragged();
  bool lasting_ = false;  // the environment and the fakes outlive the call
  std::string undecided_;
  std::vector<FakeInput> inputs_;
  std::unordered_set<const c10::StorageImpl*> written_;
  Outcome outcome_;
  bool has_number_ = false, described_ = false, asks_program_ = false;
  std::optional<CachedOperators> wraps_;  // set if an operand's class has a __torch_dispatch__, which runs
};

}  // namespace

Filled fill(const Call& call, const std::vector<Level>& levels, shape::Assumptions* assumptions) {
  if (!sets_state(call.target)) return Fill(call, levels, assumptions).run();
  Filled nothing;
  nothing.outcome.result.object = share(Py_None);
  return nothing;
}

Filled fill(const Call& call, Environment& environment, Fakes& fakes, shape::Assumptions& assumptions,
            std::string& undecided) {
  Fill fill(call, environment, fakes, assumptions);
  Filled filled = fill.run();
  undecided = fill.undecided();
  return filled;
}

Filled fill_live(const Call& call, const std::function<Owned<>(const Argument&)>& object) {
  return Fill(call, object).run();
}

}  // namespace gramme::meta
