// NumPy calls with arrays. gramme/_numpy translates each call into operations on the tensors under the arrays, and
// states what NumPy returns for such arrays, which the result must match.
#include "builtins/python_arrays.h"

#include <algorithm>
#include <set>

#include "aten/arrays.h"
#include "aten/dispatched.h"
#include "base/imported.h"
#include "base/once.h"
#include "meta/silence.h"
#include "protocol/numpy.h"
#include "trace/arrays.h"
#include "value/views.h"

namespace gramme::builtins {

using namespace value;
using trace::Array;
using trace::Arrays;

namespace {

Owned<> attribute(PyObject* object, const char* name) { return take(PyObject_GetAttrString(object, name)); }

/// The present sizes as a tuple.
Owned<> numbers_now(Trace& trace, const std::vector<shape::SymInt>& numbers) {
  Owned<> result = take(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
  for (size_t i = 0; i < numbers.size(); ++i) {
    std::optional<int64_t> now = numbers[i].number();
    if (!now) now = trace.shapes.assumptions.hint(numbers[i].expr());
    if (!now) cannot(Reason::UnbackedNumber, "a size of an array");
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), take(PyLong_FromLongLong(*now)).release());
  }
  return result;
}

/// The arguments of one call in the form that gramme._numpy receives.
class Question {
 public:
  explicit Question(Trace& trace) : trace_(trace) {}

  /// Describes an argument: a constant as itself, an array as a Stand; null for others.
  Owned<> describe(Value* value) {
    Trace::Deeper deeper(trace_);
    value = trace_.see(value);
    if (const Array* array = trace::array_of(trace_, value)) return stand(static_cast<Object*>(value), *array);
    if (auto* tuple = as<Tuple>(value); tuple && tuple->type == &PyTuple_Type) {
      Owned<> items = list_of(tuple->items);
      return items ? take(PyList_AsTuple(items.get())) : Owned<>();
    }
    if (auto* list = as<List>(value)) return list_of(list->items());
    if (auto* slice = as<Slice>(value)) {
      Owned<> start = describe(slice->start), stop = describe(slice->stop), step = describe(slice->step);
      return start && stop && step ? take(PySlice_New(start.get(), stop.get(), step.get())) : Owned<>();
    }
    if (auto* number = as<Number>(value)) return varying(number);
    auto* object = as<Object>(value);
    const bool dtype = object && object->object && std::string_view(object->type->tp_name).starts_with("numpy.dtype");
    return dtype ? share(leaf(trace_, object)) : trace_.concrete(value);
  }

  const std::vector<Object*>& arrays() const { return arrays_; }
  Number* number(size_t index) const { return numbers_.at(index); }
  const std::vector<Number*>& numbers() const { return numbers_; }
  /// The index of the first array whose memory contains the tensor; -1 if none does.
  long memory_of(const Tensor* tensor) const {
    for (size_t i = 0; i < arrays_.size(); ++i)
      if (storage_root(below(i)) == storage_root(tensor)) return static_cast<long>(i);
    return -1;
  }
  /// True if the program holds a tensor on that memory, whose version counter NumPy's writes would not raise.
  bool is_seen(const Tensor* tensor) const {
    return std::ranges::any_of(trace_.scope().state<Arrays>().given,
                               [&](const Tensor* given) { return storage_root(given) == storage_root(tensor); });
  }
  /// True if a write in the segment may have touched the tensor's memory.
  bool is_written(const Tensor* tensor) const {
    return trace_.scope().writes().has_inputs() || trace_.scope().writes().is_written_around(tensor);
  }
  /// Fixes the sizes, because the answer holds for the present ones.
  void fix() {
    for (size_t i = 0; i < arrays_.size(); ++i) {
      for (const shape::SymInt& size : below(i)->record->sizes) trace_.fixed(size);
      for (const shape::SymInt& stride : below(i)->record->strides) trace_.fixed(stride);
    }
  }
  Tensor* below(size_t index) const { return trace_.scope().state<Arrays>().known.at(arrays_.at(index)).tensor; }

 private:
  Owned<> list_of(const std::vector<Value*>& values) {
    Owned<> items = take(PyList_New(0));
    for (Value* value : values) {
      Owned<> item = describe(value);
      if (!item) return {};
      check(PyList_Append(items.get(), item.get()));
    }
    return items;
  }

  /// A varying number: an instance of an int or float subclass with its present value.
  Owned<> varying(Number* number) {
    PyObject* const whole = once([] { return helper("VaryingInt"); });
    PyObject* const real = once([] { return helper("VaryingFloat"); });
    const bool of_data = number->expr ? trace_.shapes.is_of_data(number->expr) : trace_.scope().is_data(number);
    if (of_data || number->type == &PyBool_Type || !number->object) return trace_.concrete(number);
    const auto index = static_cast<long>(std::find(numbers_.begin(), numbers_.end(), number) - numbers_.begin());
    if (index == static_cast<long>(numbers_.size())) numbers_.push_back(number);
    Owned<> now = take(PyObject_CallOneArg(number->type == &PyFloat_Type ? real : whole, number->object));
    check(PyObject_SetAttrString(now.get(), "index", take(PyLong_FromLong(index)).get()));
    return now;
  }

  Owned<> stand(Object* object, const Array& array) {
    PyObject* const type = once([] { return helper("Stand"); });
    const auto known = std::find(arrays_.begin(), arrays_.end(), object);
    const auto index = static_cast<long>(known - arrays_.begin());
    if (known == arrays_.end()) arrays_.push_back(object);
    const long memory = memory_of(array.tensor);
    refuse_tensor(array.tensor, "an array over a tensor that has changed");
    if (array.view_of && is_written(array.view_of))
      cannot(Reason::MutationUnsupported, "a write to an array of which there is a view that no tensor can be");
    const meta::Record& record = *array.tensor->record;
    Owned<> sizes = numbers_now(trace_, record.sizes);
    Owned<> strides = array.view_of ? share(array.strides) : numbers_now(trace_, record.strides);
    const bool fresh = !storage_root(array.tensor)->existing();
    return take(PyObject_CallFunction(type, "llOOOOiiii", index, memory, meta::dtype_object(record), sizes.get(),
                                      strides.get(), reinterpret_cast<PyObject*>(object->type), array.writeable,
                                      array.view_of != nullptr, fresh, is_seen(array.tensor)));
  }

  Trace& trace_;
  std::vector<Object*> arrays_;
  std::vector<Number*> numbers_;
};

/// Carries out an answer of gramme._numpy in the capture.
class Answer {
 public:
  Answer(Trace& trace, const Question& question) : trace_(trace), question_(question) {}

  /// Emits the calls in the answer's tree.
  Value* carry_out(PyObject* tree) {
    PyObject* const call = once([] { return helper("Call"); });
    if (auto* type = reinterpret_cast<PyObject*>(Py_TYPE(tree)); type == call) return emit(tree);
    if (is_stand(tree)) return operand(tree);
    if (is_varying(tree)) return varying(tree);
    if (PyTuple_CheckExact(tree) || PyList_CheckExact(tree)) {
      std::vector<Value*> items = all(tree);
      if (PyList_CheckExact(tree)) return trace_.list(std::move(items));
      return trace_.tuple(std::move(items));
    }
    if (!PySlice_Check(tree)) return trace_.adopt(share(tree));
    auto* real = reinterpret_cast<PySliceObject*>(tree);
    auto* slice = trace_.make<Slice>();
    slice->start = carry_out(real->start);
    slice->stop = carry_out(real->stop);
    slice->step = carry_out(real->step);
    return slice;
  }

  /// Specialises numbers that the graph does not take as inputs, since the answer was computed from their values.
  void specialize_others() {
    for (size_t i = 0; i < question_.numbers().size(); ++i)
      if (!used_.contains(i)) trace_.constant_of(question_.number(i));
  }

  /// The result as the program sees it; `expected` describes what NumPy returns.
  Value* shown(PyObject* expected, Value* made) {
    made = trace_.see(made);
    if (expected == Py_None) return made;
    if (expected == Py_Ellipsis) return trace_.none();
    if (is_stand(expected)) return question_.arrays().at(index_of(expected));
    if (!PyTuple_CheckExact(expected) && !PyList_CheckExact(expected)) return array(expected, made);
    const std::vector<Value*>* items = items_of(made);
    const auto count = static_cast<size_t>(PySequence_Fast_GET_SIZE(expected));
    if (!items || items->size() != count) cannot(Reason::CallUnknown, "a function of NumPy that gives others");
    std::vector<Value*> parts;
    for (size_t i = 0; i < count; ++i)
      parts.push_back(shown(PySequence_Fast_GET_ITEM(expected, static_cast<Py_ssize_t>(i)), items->at(i)));
    if (PyList_CheckExact(expected)) return trace_.list(std::move(parts));
    return trace_.tuple(std::move(parts));
  }

 private:
  static bool is_stand(PyObject* tree) {
    PyObject* const stand = once([] { return helper("Stand"); });
    return reinterpret_cast<PyObject*>(Py_TYPE(tree)) == stand;
  }
  static bool is_varying(PyObject* tree) {
    PyObject* const whole = once([] { return helper("VaryingInt"); });
    PyObject* const real = once([] { return helper("VaryingFloat"); });
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(tree));
    return type == whole || type == real;
  }
  Value* varying(PyObject* number) {
    const size_t index = index_of(number);
    used_.insert(index);
    return question_.number(index);
  }
  static size_t index_of(PyObject* stand) { return PyLong_AsSize_t(attribute(stand, "index").get()); }
  static const std::vector<Value*>* items_of(Value* made) {
    if (auto* list = as<List>(made)) return &list->items();
    auto* tuple = as<Tuple>(made);
    return tuple ? &tuple->items : nullptr;
  }

  std::vector<Value*> all(PyObject* sequence) {
    std::vector<Value*> items;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i)
      items.push_back(carry_out(PySequence_Fast_GET_ITEM(sequence, i)));
    return items;
  }

  /// The tensor of an operand, detached: arrays have no gradients.
  Value* operand(PyObject* stand) {
    Value* tensor = question_.below(index_of(stand));
    const bool needs = static_cast<Tensor*>(tensor)->record->requires_grad;
    return needs ? trace_.scope().detached(tensor) : tensor;
  }

  Value* emit(PyObject* call) {
    Owned<> target = attribute(call, "target"), args = attribute(call, "args"), keywords = attribute(call, "keywords");
    std::vector<Value*> values = all(args.get());
    const size_t positional = values.size();
    std::vector<PyObject*> names;
    PyObject *name, *value;
    for (Py_ssize_t at = 0; PyDict_Next(keywords.get(), &at, &name, &value);) {
      names.push_back(trace_.keep(share(name)));
      values.push_back(carry_out(value));
    }
    const Args all{values.data(), positional, names.data(), names.size()};
    return PyUnicode_Check(target.get()) ? trace_.emit_method(target.get(), all) : trace_.emit(target.get(), all);
  }

  Value* array(PyObject* expected, Value* made) {
    static PyObject* const agrees = intern("agrees");
    auto* tensor = as<Tensor>(made);
    if (!tensor) cannot(Reason::CallUnknown, "a function of NumPy that gives no array");
    refuse_tensor(tensor, "a function of NumPy that gives a tensor which is none of its arrays");
    const meta::Record& record = *tensor->record;
    Owned<> sizes = numbers_now(trace_, record.sizes), strides = numbers_now(trace_, record.strides);
    Owned<> memory = take(PyLong_FromLong(question_.memory_of(tensor)));
    Owned<> same = take(PyObject_CallMethodObjArgs(expected, agrees, meta::dtype_object(record), sizes.get(),
                                                   strides.get(), memory.get(), nullptr));
    if (same.get() != Py_True)
      cannot(Reason::CallUnknown, "a function of NumPy whose result torch._numpy has otherwise");
    const bool writeable = attribute(expected, "writeable").get() == Py_True;
    auto* type = reinterpret_cast<PyTypeObject*>(attribute(expected, "type").get());
    Array array{tensor, writeable};
    if (const long viewed = PyLong_AsLong(attribute(expected, "view_of").get()); viewed >= 0) {
      array.view_of = question_.below(static_cast<size_t>(viewed));
      array.strides = trace_.keep(attribute(expected, "strides"));
      if (question_.is_written(array.view_of) || record.symbolic)
        cannot(Reason::MutationUnsupported, "a view of an array that no tensor can be");
    }
    return trace::new_array(trace_, array, type);
  }

  Trace& trace_;
  const Question& question_;
  std::set<size_t> used_;
};

/// The answer of gramme._numpy for the call; null if it has none, or if an argument cannot be described.
Owned<> asked(Question& question, PyObject* callable, const Args& args, bool exact) {
  PyObject* const answer = once([] { return helper("answer"); });
  Owned<> positional = take(PyTuple_New(static_cast<Py_ssize_t>(args.positional))), keywords = take(PyDict_New());
  for (size_t i = 0; i < args.positional + args.keywords; ++i) {
    Owned<> described = question.describe(args.values[i]);
    if (!described) return {};
    if (i < args.positional)
      PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), described.release());
    else
      check(PyDict_SetItem(keywords.get(), args.names[i - args.positional], described.get()));
  }
  meta::Silence silence;
  aten::Uncounted uncounted;
  Owned<> found = take(PyObject_CallFunctionObjArgs(answer, callable, positional.get(), keywords.get(),
                                                    exact ? Py_True : Py_False, nullptr));
  if (silence.warned) {  // the program would not warn again
    PyDict_Clear(once([] { return helper("answers"); }));
    cannot(Reason::OperatorWarns);
  }
  return found;
}

/// An attribute that the array's description determines for all sizes; null for others.
Value* of_record(Trace& trace, PyObject* callable, Value* self) {
  PyObject* const shape = once([] { return real("numpy", "ndarray.shape"); });
  PyObject* const size = once([] { return real("numpy", "ndarray.size"); });
  PyObject* const length = once([] { return real("numpy", "ndarray.__len__"); });
  if (callable != shape && callable != size && callable != length) return nullptr;
  const Array* array = trace::array_of(trace, self);
  if (!array) return nullptr;
  const meta::Record& record = *array->tensor->record;
  if (callable == size) return element_count(trace, record);
  if (callable == length && record.sizes.empty()) return nullptr;
  if (callable == length) return trace.integer(record.sizes[0]);
  Tuple* sizes = size_of(trace, record);
  sizes->type = &PyTuple_Type;
  return sizes;
}

/// Guards NumPy's error state: answers hold only where floating-point errors neither raise nor call anything.
void guard_error_state(Trace& trace) {
  PyObject* const variable = once([] { return helper("ERROR_STATE"); });
  if (!PyContextVar_CheckExact(variable)) return;
  PyObject* now = nullptr;
  check(PyContextVar_Get(variable, nullptr, &now));
  if (!now) return;
  const source::Source* source = trace.pool->child(trace.pool->pinned(variable), source::Kind::ContextValue, 1);
  trace.facts.add({source, guards::Kind::Identity, Owned<>::steal(now)});
}

/// Methods that read an array's data, such as "ndarray.item".
Value* of_data(Trace& trace, const Args& args, const std::string& name) {
  const bool alone = args.positional == 1 && !args.keywords;
  const Array* array = alone ? trace::array_of(trace, trace.see(args[0])) : nullptr;
  const bool one = array && array->tensor->record->sizes.empty();
  if (name.ends_with(".__bool__")) cannot(Reason::DataDependentBranch, name);
  if (!one || !name.ends_with(".item")) cannot(Reason::DataDependentValue, name);
  return protocol::item(trace, array->tensor, name);
}

Value* call_of_array(Trace& trace, PyObject* callable, const Args& args) {
  PyObject* const rows = once([] { return real("numpy", "ndarray.__iter__"); });
  Value* self = args.positional ? trace.see(args[0]) : nullptr;
  if (Value* found = self ? of_record(trace, callable, self) : nullptr) return found;
  if (trace.confinement.any() || trace.scope().modes().in_level()) return nullptr;
  Question question(trace);
  Owned<> answer = asked(question, callable, args, trace.contract.exact_numpy);
  if (!answer || answer.get() == Py_None) return nullptr;
  if (PyUnicode_Check(answer.get())) return of_data(trace, args, PyUnicode_AsUTF8(answer.get()));
  if (!question.arrays().empty()) guard_error_state(trace);
  if (attribute(answer.get(), "exact").get() == Py_True) question.fix();
  Answer found(trace, question);
  Owned<> value = attribute(answer.get(), "value"), expected = attribute(answer.get(), "expected");
  if (callable == rows) trace.fixed(trace::array_of(trace, self)->tensor->record->sizes.at(0));
  if (expected.get() == Py_None && std::string_view(Py_TYPE(value.get())->tp_name).starts_with("numpy.dtype"))
    return trace.see(pin(trace, std::move(value)));
  Value* made = found.carry_out(value.get());
  found.specialize_others();
  Value* shown = found.shown(expected.get(), made);
  return callable == rows ? protocol::make_iterator(trace, Iterator::Sequence, {shown}) : shown;
}

}  // namespace

/// Ends the segment if NumPy could not share the tensor's memory as the graph has it.
void refuse_tensor(const Tensor* tensor, const char* wanted) {
  const meta::Record& record = *tensor->record;
  PyObject* const cpu = once([] {
    Owned<> text = take(PyUnicode_FromString("cpu"));
    return take(PyObject_CallOneArg(real("torch", "device"), text.get())).release();
  });
  const bool on_cpu = PyObject_RichCompareBool(meta::device_object(record), cpu, Py_EQ) == 1;
  if (record.inner || record.is_conj || record.is_neg || tensor->altered || !on_cpu || !meta::is_strided(record))
    cannot(Reason::CallUnknown, wanted);
}

void register_arrays() {
  protocol::set_array_call(&call_of_array);
  register_tensors_of_arrays();
}

}  // namespace gramme::builtins
