// Numbers ragged sizes, and reads and writes PyTorch's memo of them.
#include "meta/ragged.h"

#include <ATen/core/NestedIntSymNodeImpl.h>

#include <utility>

#include "aten/python.h"
#include "base/error.h"
#include "meta/wrapped.h"
#include "torch/names.h"

namespace gramme::meta {
namespace {

struct Thread {
  int32_t last_number = 0;  // of a ragged size of the capture
};
thread_local constinit Thread of_thread;

/// What PyTorch calls a nested int.
c10::SymInt ragged_size(int32_t number) {
  return c10::SymInt(c10::SymNode(c10::make_intrusive<c10::NestedIntSymNodeImpl>(number, 1)));
}

/// FakeTensorMode.create_symbolic_nested_int(nt_tensor_id=None)
PyObject* create(PyObject*, PyObject*, PyObject*) {
  try {
    return aten::object_of(ragged_size(new_ragged())).release();
  } catch (const PythonError&) {
    return nullptr;
  }
}

PyMethodDef kCreate = {of_torch::text(of_torch::CreateSymbolicNestedInt),
                       reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(create)),
                       METH_VARARGS | METH_KEYWORDS, nullptr};

bool may_be_ragged(const Record& record) {
  return record.sizes.size() == 1 && c10::isIntegralType(static_cast<c10::ScalarType>(record.dtype), false);
}

PyObject* memo_name() {
  static PyObject* const name = of_torch::attribute(of_torch::NestedIntMemo);
  return name;
}

/// The dimension of the ragged size, which comes behind the batch; -1 if the class does not tell it.
int64_t ragged_index(const Record& record) {
  static PyObject* const name = intern("ragged_idx");
  PyObject* const metadata = PyTuple_GET_ITEM(record.context, 1);
  PyObject* const index = PyDict_Check(metadata) ? PyDict_GetItem(metadata, name) : nullptr;
  return index && PyLong_Check(index) ? PyLong_AsLongLong(index) : -1;
}

int place_of(PyObject* names, of_torch::Attribute name) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), of_torch::text(name)) == 0)
      return static_cast<int>(i);
  return -1;
}

}  // namespace

int32_t new_ragged() { return ++of_thread.last_number; }
int32_t last_ragged() { return of_thread.last_number; }
void set_last_ragged(int32_t number) { of_thread.last_number = number; }

bool became_ragged(const Record* before, const Record* now) {
  return now->ragged && !before->ragged && with_ragged(before, now->ragged) == now;
}

std::vector<shape::SymInt> sizes_of_jagged(const Record& record) {
  const int values = place_of(part_names(record), of_torch::JaggedValues);
  const int offsets = place_of(part_names(record), of_torch::JaggedOffsets);
  const int64_t ragged = ragged_index(record);
  if (values < 0 || offsets < 0 || ragged < 1) return {};
  const std::vector<shape::SymInt>&dense = record.parts[values]->sizes, &bounds = record.parts[offsets]->sizes;
  const shape::Expr batch = bounds.size() == 1 ? shape::add(bounds[0].expr(), shape::constant(-1)) : nullptr;
  if (!batch || ragged > static_cast<int64_t>(dense.size())) return {};
  std::vector<shape::SymInt> sizes{shape::SymInt(batch)};
  sizes.insert(sizes.end(), dense.begin(), dense.end());
  sizes[ragged] = shape::SymInt::any();
  return sizes;
}

int ragged_part(PyObject* names) {
  const int lengths = place_of(names, of_torch::JaggedLengths);
  return lengths < 0 ? place_of(names, of_torch::JaggedOffsets) : lengths;
}

void set_ragged(PyObject* fake, int32_t number) {
  check(PyObject_SetAttr(fake, memo_name(), aten::object_of(ragged_size(number)).get()));
}

const Record* with_ragged_of(const Record* record, PyObject* fake) {
  if (!may_be_ragged(*record) || !Py_IS_TYPE(fake, of_torch::type(of_torch::FakeTensor))) return record;
  const Owned<> memo = take(PyObject_GetAttr(fake, memo_name()));
  if (!aten::is_symint(memo.get())) return record;
  const c10::SymInt size = aten::symint_of(memo.get());
  const std::optional<int64_t> number = size.is_heap_allocated() ? size.toSymNode()->nested_int() : std::nullopt;
  return number ? with_ragged(record, static_cast<int32_t>(*number)) : record;
}

void number_ragged_sizes(PyTypeObject* base, PyObject* mode_type) {
  const Owned<> method = take(PyDescr_NewMethod(base, &kCreate));
  check(PyObject_SetAttrString(mode_type, kCreate.ml_name, method.get()));
}

RaggedNumbers::RaggedNumbers() : outer_(std::exchange(of_thread.last_number, 0)) {}
RaggedNumbers::~RaggedNumbers() { of_thread.last_number = outer_; }

}  // namespace gramme::meta
