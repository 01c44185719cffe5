// Steps, the list of noted calls, runs stretches of them on fakes in open levels, and identifies equal histories by a
// trie of memo keys (prefixes.h).
#include "meta/history.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "aten/dispatched.h"
#include "aten/python.h"
#include "aten/state.h"
#include "base/interruption.h"
#include "base/signals.h"
#include "meta/batched.h"
#include "meta/build.h"
#include "meta/fakes.h"
#include "meta/fill.h"
#include "meta/pattern.h"
#include "meta/prefixes.h"
#include "meta/silence.h"
#include "meta/watch.h"

namespace gramme::meta {
namespace {

/// Thrown if there is no answer; the text says why.
struct Unanswered : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Outcome unanswered(const std::string& why) {
  Outcome outcome;
  outcome.error = true;
  outcome.message = why;
  return outcome;
}

/// The index of a getitem call on another call's result.
std::optional<uint64_t> item_of(const Call& call) {
  if (call.arg_count != 2 || call.args[0].kind != Argument::Tensor || call.args[0].record) return std::nullopt;
  return PyLong_AsSize_t(call.args[1].object);
}

template <class Visit>
void each_tensor(PyObject* value, Visit&& visit) {
  if (aten::is_tensor(value)) return visit(value);
  if (!PyTuple_Check(value) && !PyList_Check(value)) return;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
    each_tensor(PySequence_Fast_GET_ITEM(value, i), visit);
}

const c10::StorageImpl* storage_of(PyObject* value) { return meta::storage_of(innermost(aten::tensor_of(value))); }

}  // namespace

class History::Steps {
 public:
  explicit Steps(shape::Assumptions& assumptions) : assumptions_(assumptions) {}
  Steps(const Steps&) = delete;
  void begin(const graph::Node* node, const Call& call, const Record* const& record);
  void add(const graph::Node* node, const Call& call, const Record* const& record);
  const Outcome& infer(const Call& call, bool outside);
  const graph::Node* node_of(int place) const { return nodes_.at(place); }

 private:
  struct Step {
    const graph::Node* node = nullptr;  // null until known
    const Call* call;
    const Record* const* record = nullptr;
    std::unique_ptr<aten::SavedModes> state;  // thread state for it; null: that left by the step before
    aten::GlobalState now{};                  // that state as a value
  };
  Owned<> object(const Argument& argument);
  Owned<> outside(const Argument& argument);
  Outcome computed();
  void take_outside();
  void run();
  void run_stretch(size_t end);
  void make(const Step& step);
  const Record* now(const Record* record) const;
  Outcome ask(const Step& step);
  void expect(const Step& step, PyObject* value);
  void note_memory(Result& result, PyObject* value);
  void note_twins(Result& result, PyObject* value) const;
  int place(const graph::Node* node);
  uint32_t prefix();
  void forget();

  void set_state(Step& step) const;

  shape::Assumptions& assumptions_;
  std::vector<Step> steps_;
  size_t made_ = 0;  // number of steps made
  std::unordered_map<const graph::Node*, Owned<>> values_;
  std::unordered_set<const graph::Node*> made_here_;
  std::unordered_map<const graph::Node*, int> places_;  // nodes numbered in order of use, to spell steps
  std::vector<const graph::Node*> nodes_;               // by place
  uint32_t prefix_ = 0;                                 // number of the sequence of steps so far, and its length
  size_t spelt_ = 0;
  Owned<> answer_;                          // result of a call that has no node yet
  std::unique_ptr<aten::SavedModes> left_;  // the state after the last step made
  std::optional<BorrowedFakes> fakes_;
  std::deque<Outcome> passing_;
};

void History::Steps::begin(const graph::Node* node, const Call& call, const Record* const& record) {
  add(node, call, record);
  set_state(steps_.back());
}

void History::Steps::add(const graph::Node* node, const Call& call, const Record* const& record) {
  if (steps_.empty() || steps_.back().node) steps_.emplace_back();
  Step& step = steps_.back();
  step.node = node;
  step.call = &call;
  step.record = &record;
  place(node);
  made_here_.insert(node);
  if (answer_) values_[node] = std::move(answer_);
}

const Outcome& History::Steps::infer(const Call& call, bool outside) {
  Step& step = steps_.emplace_back();
  step.call = &call;
  if (outside) set_state(step);
  const uint32_t id = prefix();
  Prefixes::Known* known = prefixes->find(id);
  if (known && known->outcome) return *known->outcome;
  Outcome outcome = computed();
  known = outcome.error || !prefix_ ? nullptr : prefixes->find(id);  // failures may be due to lack of memory
  if (!known || known->outcome) return passing_.emplace_back(std::move(outcome));
  known->outcome = std::make_unique<Outcome>(std::move(outcome));
  return *known->outcome;
}

void History::Steps::set_state(Step& step) const {
  step.state = std::make_unique<aten::SavedModes>();
  step.state->save();
  step.now = aten::GlobalState::read();
}

// ---- running

/// Throws PythonError for what interrupts the program.
Outcome History::Steps::computed() {
  const SignalsHeld held;
  WithoutCollection no_finalizers;  // their operators would run on fakes
  Quiet quiet;
  try {
    KeptModes kept;
    if (!fakes_) fakes_.emplace();
    take_outside();
    run();
    Outcome outcome = ask(steps_.back());
    if (aten::forward_level_is_open()) forget();
    return outcome;
  } catch (const PythonError&) {
    if (is_interruption()) throw;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Owned<> kind = Owned<>::steal(type), error = Owned<>::steal(value), where = Owned<>::steal(traceback);
    Owned<> text = Owned<>::steal(PyObject_Str(error ? error.get() : Py_None));
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    PyErr_Clear();
    return unanswered(std::string(reinterpret_cast<PyTypeObject*>(type)->tp_name) + ": " + (utf8 ? utf8 : ""));
  } catch (const std::exception& error) {
    return unanswered(error.what());
  }
}

/// Makes tensors from outside transforms while the thread is in none.
void History::Steps::take_outside() {
  for (size_t i = made_; i < steps_.size(); ++i)
    each_leaf(*steps_[i].call, [this](const Argument& argument) {
      const bool known = made_here_.contains(argument.node) || values_.contains(argument.node);
      if (argument.kind == Argument::Tensor && !known) values_[argument.node] = outside(argument);
    });
}

/// Runs all steps but the last, each stretch in its state.
void History::Steps::run() {
  while (made_ + 1 < steps_.size()) {
    size_t end = made_ + 1;
    while (end + 1 < steps_.size() && !steps_[end].state) ++end;
    run_stretch(end);
  }
}

void History::Steps::run_stretch(size_t end) {
  (steps_[made_].state ? *steps_[made_].state : *left_).restore();
  {
    EnteredFakes entered((**fakes_).mode());
    Watch watch;
    Silence silence;
    aten::OnFakes dispatched;
    for (; made_ < end; ++made_) make(steps_[made_]);
    if (watch.asks_program) prefix_ = 0;
  }
  left_ = std::make_unique<aten::SavedModes>();
  left_->save();
}

void History::Steps::make(const Step& step) {
  Builder builder([this](const Argument& argument) { return object(argument); });
  Owned<> args = builder.args(*step.call), kwargs = builder.kwargs(*step.call);
  Owned<> value = take(run_silently(*step.call, args.get(), kwargs.get()));
  expect(step, value.get());
  values_[step.node] = std::move(value);
}

Outcome History::Steps::ask(const Step& step) {
  (step.state ? *step.state : *left_).restore();
  Filled filled;
  {
    EnteredFakes entered((**fakes_).mode());
    filled = fill_live(*step.call, [this](const Argument& argument) { return object(argument); });
  }
  left_ = std::make_unique<aten::SavedModes>();
  left_->save();
  ++made_;
  if (!filled.lasting) prefix_ = 0;
  filled.outcome.raised = false;  // which call raises is left to the program's own run
  if (filled.outcome.error) return std::move(filled.outcome);
  note_memory(filled.outcome.result, filled.value.get());
  note_twins(filled.outcome.result, filled.value.get());
  answer_ = std::move(filled.value);
  return std::move(filled.outcome);
}

/// Drops everything made. The forward-AD level belongs to the process and cannot stay open, so its state is lost.
void History::Steps::forget() {
  values_.clear();
  answer_ = {};
  left_.reset();
  made_ = 0;
}

Owned<> History::Steps::object(const Argument& argument) {
  auto known = values_.find(argument.node);
  if (known != values_.end()) return known->second;
  if (argument.kind == Argument::Tensor) throw Unanswered("a tensor that nothing made");
  if (!argument.expr) return share(argument.object);
  return take(PyLong_FromLongLong(assumptions_.hint(argument.expr).value()));
}

const Record* History::Steps::now(const Record* record) const {
  return mapped(record, [this](shape::SymInt number) {
    return number.is_number() ? number : shape::SymInt(assumptions_.hint(number.expr()).value());
  });
}

/// A tensor from outside transforms: a separate fake, which steps may write.
Owned<> History::Steps::outside(const Argument& argument) {
  const Record* record = now(argument.record);
  if (record->inner) throw Unanswered("a tensor of a transform that was left");
  if (record->layout != static_cast<int8_t>(c10::kStrided) || !aten::is_exact_tensor_type(record->type) ||
      c10::isQIntType(static_cast<c10::ScalarType>(record->dtype)))
    throw Unanswered("a tensor that a record does not describe");
  Fakes& fakes = **fakes_;
  fakes.forget(record);
  Owned<> made = fakes.fake(record, 0);
  fakes.forget(record);
  return made;
}

// ---- comparing with what was inferred before

void History::Steps::expect(const Step& step, PyObject* value) {
  if (!aten::is_tensor(value) || !*step.record) return;
  const Record* expected = now(*step.record);
  const at::Tensor& tensor = aten::tensor_of(value);
  if (record_of_tensor(tensor, fake_device_of(tensor), expected->type) != expected)
    throw Unanswered("an operation that is another one inside a transform");
}

/// Notes memory that a result shares with inputs other than arguments: a tangent may be an input's.
void History::Steps::note_memory(Result& result, PyObject* value) {
  for (size_t i = 0; i < result.items.size(); ++i)
    note_memory(result.items[i], PySequence_Fast_GET_ITEM(value, static_cast<Py_ssize_t>(i)));
  if (result.kind != Result::Tensor || result.same_as >= 0 || result.view_of >= 0) return;
  const c10::StorageImpl* storage = storage_of(value);
  for (const auto& [node, object] : values_)
    each_tensor(object.get(), [&, place = place(node)](PyObject* tensor) {
      if (!storage || storage != storage_of(tensor)) return;
      if (result.memory_of < 0 || place < result.memory_of) result.memory_of = place;
    });
  result.shared |= result.memory_of >= 0;
}

void History::Steps::note_twins(Result& result, PyObject* value) const {
  if (result.kind != Result::Sequence) return;
  for (size_t i = 0; i < result.items.size(); ++i) {
    Result& item = result.items[i];
    PyObject* own = PySequence_Fast_GET_ITEM(value, static_cast<Py_ssize_t>(i));
    for (size_t j = 0; j < i && item.kind == Result::Tensor && item.same_as < 0 && item.twin < 0; ++j) {
      PyObject* other = PySequence_Fast_GET_ITEM(value, static_cast<Py_ssize_t>(j));
      if (result.items[j].kind != Result::Tensor) continue;
      if (other == own) item.twin = static_cast<int>(j);
      if (storage_of(other) && storage_of(other) == storage_of(own)) item.shared = result.items[j].shared = true;
    }
  }
}

// ---- memo of earlier captures

int History::Steps::place(const graph::Node* node) {
  auto [found, added] = places_.try_emplace(node, static_cast<int>(nodes_.size()));
  if (added) nodes_.push_back(node);
  return found->second;
}

/// The number of the sequence of steps, including the last one.
uint32_t History::Steps::prefix() {
  if (spelt_ == 0) prefixes->trim();
  if (spelt_ == 0) prefix_ = 1;
  for (; spelt_ < steps_.size() && prefix_; ++spelt_) {
    const Step& step = steps_[spelt_];
    Key key;  // empty for an item of a call's result
    std::vector<uint64_t> words;
    if (const std::optional<uint64_t> item = item_of(*step.call))
      words.push_back(*item);
    else
      key.build(*step.call, {});
    if (!key.memoizable()) return prefix_ = 0;
    if (step.state) words.insert(words.end(), {step.now.included, step.now.excluded, step.now.bits, step.now.dtypes});
    words.push_back(words.size());
    if (step.node) words.push_back(static_cast<uint64_t>(place(step.node)));
    each_leaf(*step.call, [&](const Argument& argument) {
      if (argument.node) words.push_back(static_cast<uint64_t>(place(argument.node)));
    });
    prefix_ = prefixes->extended(prefix_, key, std::move(words)).id;
  }
  return prefix_;
}

History::History(shape::Assumptions& assumptions) : steps_(std::make_unique<Steps>(assumptions)) {}
History::~History() = default;

void History::begin(const graph::Node* node, const Call& call, const Record* const& record) {
  steps_->begin(node, call, record);
}
void History::add(const graph::Node* node, const Call& call, const Record* const& record) {
  steps_->add(node, call, record);
}
const Outcome& History::infer(const Call& call, bool outside) { return steps_->infer(call, outside); }
const graph::Node* History::node_of(int place) const { return steps_->node_of(place); }

}  // namespace gramme::meta
