// Converts an index or mask array to a tensor, with the checks by which PyTorch would refuse, warn or copy.
#include "protocol/array_keys.h"

#include "aten/arrays.h"
#include "base/imported.h"
#include "base/once.h"
#include "meta/record.h"
#include "protocol/special.h"
#include "torch/names.h"
#include "trace/arrays.h"

namespace gramme::protocol {

using namespace value;

namespace {

struct Dtypes {
  PyObject *int64, *int32, *int16, *boolean;
};

const Dtypes& dtypes() {
  return *once([] {
    auto named = [](const char* name) { return imported("torch", name).release(); };
    return new Dtypes{named("int64"), named("int32"), named("int16"), named("bool")};
  });
}

/// True unless the program has switched the tracing of NumPy off.
bool traces_arrays() {
  PyObject* const traces = once([] { return imported("gramme._numpy", "traces").release(); });
  return take(PyObject_CallNoArgs(traces)).get() == Py_True;
}

bool is_laid_out(const trace::Array& array, const Tensor* indexed) {
  const meta::Record& record = *array.tensor->record;
  const bool one_device =
      PyObject_RichCompareBool(meta::device_object(record), meta::device_object(*indexed->record), Py_EQ) == 1;
  return !array.view_of && !array.tensor->altered && !record.inner && !record.sizes.empty() && one_device;
}

}  // namespace

Value* key_of_array(Trace& trace, const Tensor* indexed, Value* key) {
  static PyObject* const to = intern("to");
  if (type_of(key) != aten::array_type()) return nullptr;
  const trace::Array* array = trace::array_of(trace, key);
  if (!array || !is_laid_out(*array, indexed) || !traces_arrays()) return nullptr;
  PyObject* const dtype = meta::dtype_object(*array->tensor->record);
  // detach(): a version counter of its own, so that NumPy's writes do not disturb a backward that saved the index.
  if (dtype == dtypes().int64 || dtype == dtypes().boolean)
    return trace.emit(of_torch::object(of_torch::GetDataAttr), {array->tensor});
  if (dtype != dtypes().int32 && dtype != dtypes().int16) return nullptr;
  Value* converting[] = {array->tensor, trace.constant(dtypes().int64)};
  return trace.emit_method(to, Args{converting, 2, nullptr, 0});
}

}  // namespace gramme::protocol
