// Calls __tensor_flatten__ and __tensor_unflatten__ on wrappers of fakes.
#include "meta/wrapped.h"

#include <stdexcept>

#include "aten/python.h"
#include "base/imported.h"
#include "base/once.h"
#include "meta/batched.h"
#include "meta/description.h"
#include "meta/fakes.h"
#include "meta/ragged.h"
#include "torch/names.h"

namespace gramme::meta {
namespace {

PyObject* const kDispatch = intern("__torch_dispatch__");

bool has(PyTypeObject* type, const char* name) {
  return PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), name);
}

bool is_fake(PyObject* tensor) {
  return Py_IS_TYPE(tensor, reinterpret_cast<PyTypeObject*>(of_torch::object(of_torch::FakeTensor)));
}

struct Flat {
  Owned<> context;
  Owned<> inner;  // a list
};

Flat flat(PyObject* wrapper) {
  PyObject* const flatten = once([] { return imported("gramme._wrappers", "flatten").release(); });
  Owned<> both = take(PyObject_CallOneArg(flatten, wrapper));
  return {share(PyTuple_GET_ITEM(both.get(), 0)), share(PyTuple_GET_ITEM(both.get(), 1))};
}

template <class Visit>
void each_inner(PyObject* list, Visit&& visit) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) visit(PyList_GET_ITEM(list, i));
}

void add_parts(PyObject* tensor, Parts& parts, int depth) {
  if (const c10::StorageImpl* storage = storage_of(aten::tensor_of(tensor))) parts.storages.push_back(storage);
  if (!wraps_fakes(tensor)) return;
  const Flat made = flat(tensor);
  each_inner(made.inner.get(), [&](PyObject* inner) {
    if (!aten::is_tensor(inner)) throw std::runtime_error("a wrapper of what is no tensor");
    if (depth == 0) parts.tensors.push_back(aten::tensor_of(inner).unsafeGetTensorImpl());
    add_parts(inner, parts, depth + 1);
  });
}

}  // namespace

bool is_wrapper(PyTypeObject* type) {
  if (aten::is_exact_tensor_type(type)) return false;
  PyObject* const none = once(
      [] { return take(PyObject_GetAttr(reinterpret_cast<PyObject*>(aten::tensor_type()), kDispatch)).release(); });
  const Owned<> found = Owned<>::steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), kDispatch));
  if (!found) PyErr_Clear();
  return found.get() != none;
}

bool is_traceable(PyTypeObject* type) {
  return is_wrapper(type) && has(type, "__tensor_flatten__") && has(type, "__tensor_unflatten__");
}

Owned<> wrapper_context(const std::vector<PyObject*>& names, PyObject* context) {
  Owned<> list = take(PyList_New(0));
  for (PyObject* name : names) check(PyList_Append(list.get(), name));
  const Owned<> canonical = imported("gramme._wrappers", "canonical");
  return take(PyObject_CallFunctionObjArgs(canonical.get(), list.get(), context, nullptr));
}

PyObject* part_names(const Record& record) { return PyTuple_GET_ITEM(record.context, 0); }

bool reads_part(PyObject* target) {
  PyObject* const getattr = once([] { return imported("builtins", "getattr").release(); });
  return target == getattr;
}

bool wraps_fakes(PyObject* tensor) {
  return aten::is_tensor(tensor) && !is_fake(tensor) && is_traceable(Py_TYPE(tensor));
}

Parts parts_of(PyObject* wrapper) {
  Parts parts;
  add_parts(wrapper, parts, 0);
  return parts;
}

const Record* record_of_wrapper(PyObject* wrapper, Environment* environment) {
  const at::Tensor& outer = aten::tensor_of(wrapper);
  const Flat made = flat(wrapper);
  std::vector<const Record*> parts;
  each_inner(made.inner.get(), [&](PyObject* inner) {
    if (!aten::is_tensor(inner)) throw std::runtime_error("a wrapper of what is no tensor");
    if (wraps_fakes(inner)) return parts.push_back(record_of_wrapper(inner, environment));
    if (!is_fake(inner)) throw std::runtime_error("a wrapper of a tensor that was there before the call");
    const at::Tensor& tensor = aten::tensor_of(inner);
    if (tensor.layout() != c10::kStrided) throw std::runtime_error("a wrapper of a tensor without strides");
    const Record* part = record_of_tensor(tensor, fake_device_of(tensor), type_of_fake(inner), environment);
    parts.push_back(with_ragged_of(part, inner));
  });
  return with_parts(record_of_tensor(outer, outer.device(), Py_TYPE(wrapper), environment), std::move(parts),
                    made.context.get());
}

Owned<> make_wrapper(const Record& record, PyObject* inner, const std::function<Owned<>(shape::SymInt)>& number) {
  auto tuple = [&](const std::vector<shape::SymInt>& numbers) {
    Owned<> made = take(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
    for (size_t i = 0; i < numbers.size(); ++i)
      PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), number(numbers[i]).release());
    return made;
  };
  const Owned<> unflatten = imported("gramme._wrappers", "unflatten");
  return take(PyObject_CallFunctionObjArgs(unflatten.get(), reinterpret_cast<PyObject*>(record.type), record.context,
                                           inner, tuple(record.sizes).get(), tuple(record.strides).get(), nullptr));
}

}  // namespace gramme::meta
