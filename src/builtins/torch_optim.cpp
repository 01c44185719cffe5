// Functions that optimizers call besides tensor operations: grouping tensors by device and dtype.
#include "builtins/torch_support.h"
#include "torch/names.h"

namespace gramme::builtins {

using namespace value;

namespace {

/// Groups lists of tensors (or None) by the device and dtype of the first list's tensors, in PyTorch's order.
class Groups {
 public:
  Groups(Trace& trace, Value* lists) : trace_(trace) {
    for (Value* list : protocol::items_of(trace, trace.see(lists))) lists_.push_back(items(list));
    if (lists_.empty() || lists_[0].empty()) refuse();
    for (const auto& list : lists_)
      if (!list.empty() && list.size() != lists_[0].size()) refuse();
    for (Value* item : lists_[0])
      if (item->kind != Kind::Tensor) refuse();
  }

  Value* grouped(bool with_indices) {
    Dict* result = trace_.dict();
    Owned<> found = real_groups();
    PyObject *key, *group;
    for (Py_ssize_t at = 0; PyDict_Next(found.get(), &at, &key, &group);) {
      PyObject* const places = PyTuple_GET_ITEM(group, 1);
      std::vector<Value*> lists, indices;
      for (const auto& list : lists_) lists.push_back(trace_.list(chosen(list, places)));
      for (Py_ssize_t i = 0; with_indices && i < PyList_GET_SIZE(places); ++i)
        indices.push_back(trace_.constant(PyList_GET_ITEM(places, i)));
      trace_.dict_set(result, trace_.adopt(share(key)),
                      trace_.tuple({trace_.list(std::move(lists)), trace_.list(std::move(indices))}));
    }
    return result;
  }

 private:
  [[noreturn]] static void refuse() {
    cannot(Reason::ArgumentKind, "_group_tensors_by_device_and_dtype of anything but lists of tensors");
  }

  std::vector<Value*> items(Value* list) {
    list = trace_.see(list);
    if (list->kind != Kind::List) refuse();
    std::vector<Value*> result;
    for (Value* item : protocol::items_of(trace_, list)) {
      item = trace_.see(item);
      auto* tensor = as<Tensor>(item);
      if (tensor ? protocol::asked_for(trace_, tensor) != protocol::Asked::Nobody : item != trace_.none()) refuse();
      result.push_back(item);
    }
    return result;
  }

  /// PyTorch's own grouping of example tensors of the same devices and dtypes, as indices.
  Owned<> real_groups() {
    PyObject* const group = of_torch::object(of_torch::GroupTensorsByDeviceAndDtype);
    PyObject* const empty = once([] { return real("torch", "empty"); });
    Owned<> first = take(PyList_New(0));
    for (Value* item : lists_[0]) {
      const meta::Record& record = *static_cast<Tensor*>(item)->record;
      Owned<> names =
          take(Py_BuildValue("{s:O,s:O}", "dtype", meta::dtype_object(record), "device", meta::device_object(record)));
      Owned<> none_of_it = take(Py_BuildValue("(i)", 0));
      check(PyList_Append(first.get(), take(PyObject_Call(empty, none_of_it.get(), names.get())).get()));
    }
    return take(PyObject_CallFunction(group, "[O]O", first.get(), Py_True));
  }

  static std::vector<Value*> chosen(const std::vector<Value*>& list, PyObject* places) {
    std::vector<Value*> result;
    for (Py_ssize_t i = 0; !list.empty() && i < PyList_GET_SIZE(places); ++i)
      result.push_back(list.at(PyLong_AsSize_t(PyList_GET_ITEM(places, i))));
    return result;
  }

  Trace& trace_;
  std::vector<std::vector<Value*>> lists_;
};

Value* group_tensors(Trace& trace, const Args& args) {
  auto [lists, with_indices] = positional<2>(args, 1);
  return Groups(trace, lists).grouped(with_indices && protocol::truth(trace, with_indices));
}

}  // namespace

void register_torch_optim() { add_rows({{of_torch::GroupTensorsByDeviceAndDtype, &group_tensors}}); }

}  // namespace gramme::builtins
