// Finds or makes the tensor under an array. An array that existed before the capture becomes a tensor source of its own
// (Kind::ArrayTensor), so that guards describe its type, sizes and strides.
#include "trace/arrays.h"

#include "aten/arrays.h"
#include "trace/trace.h"

namespace gramme::trace {

using namespace value;

const Array* array_of(Trace& trace, Value* seen) {
  auto* object = as<Object>(seen);
  if (!object) return nullptr;
  auto& known = trace.scope().state<Arrays>().known;
  if (const auto found = known.find(object); found != known.end()) return &found->second;
  if (!object->existing() || !object->object || !aten::is_array(object->object)) return nullptr;
  Owned<> over = aten::tensor_over(object->object);
  if (!over) return nullptr;
  const bool writeable = aten::is_writeable(object->object);
  const Source* source = trace.pool->child(object->source, source::Kind::ArrayTensor, writeable);
  auto* tensor = trace.see_as<Tensor>(trace.wrap(over.get(), source));
  return tensor ? &known.emplace(object, Array{tensor, writeable}).first->second : nullptr;
}

Object* new_array(Trace& trace, Array array, PyTypeObject* type) {
  auto* object = trace.make<Object>();
  object->type = type;
  trace.scope().state<Arrays>().known.emplace(object, array);
  return object;
}

}  // namespace gramme::trace
