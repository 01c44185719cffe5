// A subclass of FakeTensorMode with a dispatch method in C++, and a RecordFunction callback, which report operators to
// the current Watch.
#include "meta/watch.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/Dtype.h>

#include <cmath>
#include <string_view>
#include <unordered_map>

#include "aten/python.h"
#include "base/imported.h"
#include "base/integer.h"
#include "base/once.h"
#include "meta/asked.h"
#include "meta/kernels.h"
#include "meta/ragged.h"
#include "meta/traits.h"
#include "torch/names.h"

namespace gramme::meta {
namespace {

struct Thread {
  Watch* watch = nullptr;  // the innermost
};
thread_local constinit Thread of_thread;

PyObject* positional(PyObject* args, int position) {
  return position >= 0 && position < PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, position) : nullptr;
}

void note_written(Watch& watch, PyObject* value) {
  if (value && aten::is_tensor(value)) {
    const at::Tensor& tensor = aten::tensor_of(value);
    if (tensor.has_storage()) watch.written.insert(tensor.storage().unsafeGetStorageImpl());
  } else if (value && PyList_Check(value)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i) note_written(watch, PyList_GET_ITEM(value, i));
  }
}

/// True if dropout_p is 0, given or by default.
bool drops_nothing(const Traits& traits, PyObject* args) {
  if (traits.dropout < 0) return false;
  PyObject* probability = positional(args, traits.dropout);
  return !probability || (PyFloat_Check(probability) && PyFloat_AS_DOUBLE(probability) == 0.0);
}

/// The argument as a number, or `otherwise` if it is omitted, since defaults are acceptable.
double number_or(PyObject* value, double otherwise) {
  if (!value) return otherwise;
  const double number = PyFloat_AsDouble(value);
  if (!PyErr_Occurred()) return number;
  PyErr_Clear();
  return std::nan("");
}

bool takes(Numbers numbers, PyObject* args) {
  PyObject *first = positional(args, 1), *second = positional(args, 2);
  switch (numbers) {
    case Numbers::Any:
      return true;
    case Numbers::Probability:
      return number_or(first, 0.5) >= 0 && number_or(first, 0.5) <= 1;
    case Numbers::Interval: {
      const double length = number_or(second, 1) - number_or(first, 0);
      return length >= 0 && length <= 1e4;  // cannot overflow any dtype
    }
    case Numbers::Deviation:
      return number_or(second, 1) >= 0;
  }
  return false;
}

/// True for integer operands whose second is not known to be positive.
bool are_refused(PyObject* args) {
  for (int i = 0; i < 2; ++i) {
    PyObject* value = positional(args, i);
    if (!value || PyFloat_Check(value)) return false;
    if (PyLong_Check(value) && i == 1 && sign_of(value) > 0) return false;
    if (aten::is_tensor(value) && !c10::isIntegralType(aten::tensor_of(value).scalar_type(), true)) return false;
  }
  return true;
}

const at::Tensor* tensor_at(PyObject* args, int position) {
  PyObject* value = positional(args, position);
  return value && aten::is_tensor(value) ? &aten::tensor_of(value) : nullptr;
}

PyObject* keyword(PyObject* kwargs, const char* name) {
  return kwargs && PyDict_Check(kwargs) ? PyDict_GetItemString(kwargs, name) : nullptr;
}

bool is_real(at::ScalarType dtype) { return dtype != at::kBool && !c10::isComplexType(dtype); }

/// The number of elements that are reduced to one; all if no dimensions are given.
c10::SymInt reduced_elements(const at::Tensor& tensor, PyObject* dims) {
  const bool some = dims && PySequence_Check(dims) && PySequence_Size(dims) > 0;
  c10::SymInt count = some ? c10::SymInt(1) : tensor.sym_numel();
  for (Py_ssize_t i = 0; some && i < PySequence_Size(dims); ++i) {
    const auto dim = static_cast<int64_t>(number_or(take(PySequence_GetItem(dims, i)).get(), 0));
    if (-tensor.dim() <= dim && dim < tensor.dim()) count *= tensor.sym_size(dim);
  }
  return count;
}

bool warns(Warns when, PyObject* args, PyObject* kwargs) {
  const at::Tensor *first = tensor_at(args, 0), *second = tensor_at(args, 1);
  switch (when) {
    case Warns::Never:
      return false;
    case Warns::Always:
      return true;
    case Warns::FromComplex:
      return first && second && second->is_complex() && is_real(first->scalar_type());
    case Warns::ToReal: {
      PyObject* dtype = keyword(kwargs, "dtype");
      return first && first->is_complex() && dtype && THPDtype_Check(dtype) &&
             is_real(reinterpret_cast<THPDtype*>(dtype)->scalar_type);
    }
    case Warns::WithoutFreedom: {
      PyObject* correction = keyword(kwargs, "correction");
      const double subtracted = correction && correction != Py_None ? number_or(correction, 1) : 1;
      const auto least = static_cast<int64_t>(std::floor(subtracted));  // where sizes vary, asking is a guard
      return first && reduced_elements(*first, positional(args, 1)).sym_le(least).guard_or_true(__FILE__, __LINE__);
    }
  }
  return false;
}

/// Checks index dtypes, which FakeTensorMode does not.
void check_indices(PyObject* indices) {
  if (!indices || !(PyList_Check(indices) || PyTuple_Check(indices))) return;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(indices); ++i) {
    PyObject* index = PySequence_Fast_GET_ITEM(indices, i);
    if (!aten::is_tensor(index)) continue;
    const at::ScalarType dtype = aten::tensor_of(index).scalar_type();
    if (dtype == at::kLong || dtype == at::kInt || dtype == at::kByte || dtype == at::kBool) continue;
    PyErr_SetString(PyExc_IndexError, "tensors used as indices must be long, int, byte or bool tensors");
    throw PythonError();
  }
}

/// True if a single number is written under a full mask: no index can be out of range.
bool writes_under_mask(const Traits& traits, PyObject* args) {
  PyObject *self = positional(args, 0), *indices = positional(args, traits.indices),
           *values = traits.indices < 0 ? nullptr : positional(args, traits.indices + 1);
  if (!indices || !values || !aten::is_tensor(self) || !aten::is_tensor(values)) return false;
  if (!(PyList_Check(indices) || PyTuple_Check(indices)) || PySequence_Fast_GET_SIZE(indices) != 1) return false;
  PyObject* only = PySequence_Fast_GET_ITEM(indices, 0);
  if (!aten::is_tensor(only)) return false;
  const at::Tensor &written = aten::tensor_of(self), &mask = aten::tensor_of(only), &value = aten::tensor_of(values);
  for (const at::Tensor* tensor : {&written, &mask, &value})
    if (tensor->unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return false;
  return mask.scalar_type() == at::kBool && mask.sizes() == written.sizes() && value.dim() == 0 &&
         value.scalar_type() == written.scalar_type() && written.device() == mask.device();
}

void note(Watch& watch, PyObject* op, PyObject* args, PyObject* kwargs) {
  const Traits& traits = traits_of(op);
  check_indices(positional(args, traits.indices));
  if (traits.random && !drops_nothing(traits, args)) {
    watch.random = true;
    watch.save_generator();
  }
  watch.runs_python |= traits.python;
  watch.asks_program |= !traits.own;
  if (!traits.faked) {
    PyErr_SetString(PyExc_NotImplementedError, "an operator in Python without a kernel for fakes");
    throw PythonError();
  }
  if (watch.fakes == 0) {  // operators that the mode calls to infer another one do not count
    watch.opaque |= traits.opaque;
    watch.warns |= warns(traits.warns, args, kwargs);
    watch.may_raise |= (traits.raises && !writes_under_mask(traits, args)) || (traits.integers && are_refused(args)) ||
                       !takes(traits.numbers, args);
  }
  if (traits.training >= 0 && positional(args, traits.training) != Py_True) return;
  for (const auto& [position, name] : traits.written) {
    PyObject* value = positional(args, position);
    if (!value && kwargs && PyDict_Check(kwargs)) value = PyDict_GetItem(kwargs, name);
    note_written(watch, value);
  }
}

/// Runs the operator's C++ body, with its parts under the mode again (`decompose` may be Python).
PyObject* decompose(PyObject* mode, PyObject* op, PyObject* args, PyObject* kwargs) {
  PyObject* const key = once([] {
    return take(PyObject_GetAttrString(of_torch::object(of_torch::DispatchKey), "CompositeImplicitAutograd")).release();
  });
  Owned<> body = take(PyObject_GetAttrString(op, of_torch::text(of_torch::OpDk)));
  Owned<> with_key = take(PySequence_Concat(take(PyTuple_Pack(1, key)).get(), args));
  take(PyObject_CallMethod(mode, "__enter__", nullptr));
  Owned<> result = Owned<>::steal(PyObject_Call(body.get(), with_key.get(), kwargs));
  ErrorState pending;
  Owned<> done = Owned<>::steal(PyObject_CallMethod(mode, "__exit__", "OOO", Py_None, Py_None, Py_None));
  if (!done) PyErr_Clear();
  return result.release();
}

bool is_higher_order(PyObject* op) {
  PyTypeObject* const type = of_torch::type(of_torch::HigherOrderOperator);
  return PyObject_TypeCheck(op, type);
}

/// FakeTensorMode's rule for a higher-order operator; null if the operator's dispatch method is used.
Owned<> rule_of(PyObject* op) {
  PyObject* const fakes = of_torch::object(of_torch::RegisteredHopFakeFns);
  PyObject* const mode = of_torch::object(of_torch::FakeTensorMode);
  if (check(PySequence_Contains(fakes, op))) return {};
  Owned<> rules = take(PyObject_GetAttrString(op, "python_key_table"));
  return take(PyObject_GetItem(rules.get(), mode));
}

/// FakeTensorMode.__torch_dispatch__(self, func, types, args, kwargs) without its logging. In inference mode composites
/// arrive whole; they are run by their C++ bodies, since Python decompositions differ (dropout copies when it is off).
PyObject* dispatch(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  static PyObject* const name = intern("dispatch");
  PyObject* kwargs = count > 3 ? arguments[3] : nullptr;
  if (count < 3) return PyErr_Format(PyExc_TypeError, "__torch_dispatch__ takes func, types, args and kwargs");
  if (kwargs == Py_None) kwargs = nullptr;
  try {
    const bool higher_order = is_higher_order(arguments[0]);
    if (!higher_order && c10::InferenceMode::is_enabled() && traits_of(arguments[0]).composite)
      return decompose(self, arguments[0], arguments[2], kwargs);
    if (of_thread.watch && !higher_order) note(*of_thread.watch, arguments[0], arguments[2], kwargs);
    if (of_thread.watch && higher_order)
      of_thread.watch->runs_python = of_thread.watch->may_raise = of_thread.watch->asks_program = true;
    if (Owned<> rule = higher_order ? rule_of(arguments[0]) : Owned<>()) {
      Owned<> all = take(PySequence_Concat(take(PyTuple_Pack(1, self)).get(), arguments[2]));
      return PyObject_Call(rule.get(), all.get(), kwargs);
    }
  } catch (const PythonError&) {
    return nullptr;
  }
  PyObject* call[] = {self, arguments[0], arguments[1], arguments[2], kwargs};
  Watch* watch = of_thread.watch;
  if (watch) ++watch->fakes;
  PyObject* result = PyObject_VectorcallMethod(name, call, kwargs ? 5 : 4, nullptr);
  if (watch) --watch->fakes;
  return result;
}

/// Counts operators that the call itself dispatches, composites included. Those may also read data, which fakes lack.
std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function) {
  if (!of_thread.watch || of_thread.watch->operators++ > 0 || of_thread.watch->may_raise) return nullptr;
  const std::optional<c10::OperatorName> op = function.operator_name();
  const bool told_by_arguments = op && op->name.find("index_put") != std::string::npos;  // where the mode sees it
  of_thread.watch->may_raise = !told_by_arguments && (!op || may_raise(*op));
  return nullptr;
}

void on_end(const at::RecordFunction&, at::ObserverContext*) {
  if (of_thread.watch) --of_thread.watch->operators;
}

PyMethodDef kDispatch = {"__torch_dispatch__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(dispatch)),
                         METH_FASTCALL, nullptr};

/// The subclass of FakeTensorMode. Its dispatch method is set after the class is made, because TorchDispatchMode wraps
/// the one it finds then.
PyObject* watching_type() {
  PyObject* const type = once([] {
    Owned<> base = share(of_torch::object(of_torch::FakeTensorMode));
    Owned<> made =
        take(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(O){}", "MetadataMode", base.get()));
    Owned<> method = take(PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(base.get()), &kDispatch));
    check(PyObject_SetAttrString(made.get(), "__torch_dispatch__", method.get()));
    check(PyObject_SetAttrString(made.get(), "supports_higher_order_operators", Py_True));
    number_ragged_sizes(reinterpret_cast<PyTypeObject*>(base.get()), made.get());
    return made.release();
  });
  return type;
}

bool set_cached(PyObject* mode, PyObject* cached) {
  static PyObject* const name = intern("cache_enabled");
  return PyObject_SetAttr(mode, name, cached) == 0;
}

}  // namespace

Owned<> new_watching_mode(PyObject* shape_env) {
  Owned<> none = take(PyTuple_New(0));
  Owned<> options = take(Py_BuildValue("{s:O,s:O,s:O}", "allow_non_fake_inputs", Py_False, "static_shapes",
                                       shape_env ? Py_False : Py_True, "shape_env", shape_env ? shape_env : Py_None));
  Owned<> mode = take(PyObject_Call(watching_type(), none.get(), options.get()));
  if (!set_cached(mode.get(), Py_False)) throw PythonError();  // outcomes are kept instead
  return mode;
}

CachedOperators::CachedOperators(PyObject* mode) : mode_(mode) {
  if (!set_cached(mode, Py_True)) throw PythonError();
}

CachedOperators::~CachedOperators() {
  ErrorState pending;
  if (!set_cached(mode_, Py_False)) PyErr_Clear();
}

Watch::Watch() : outer_(std::exchange(of_thread.watch, this)) {
  if (outer_) return;
  callback_ =
      at::addThreadLocalCallback(at::RecordFunctionCallback(on_begin, on_end).scopes({at::RecordScope::FUNCTION}));
}

Watch::~Watch() {
  asked->program += asks_program;
  if (callback_) at::removeCallback(*callback_);
  of_thread.watch = outer_;
  generator_.restore();
}

void Watch::save_generator() {
  if (!std::exchange(drew_, true)) generator_.save();
}

}  // namespace gramme::meta
