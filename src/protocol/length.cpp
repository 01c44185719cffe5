// len(), and conversion to an integer for positions and sizes.
#include "base/integer.h"
#include "protocol/answers.h"
#include "protocol/number.h"
#include "protocol/special.h"
#include "protocol/tensors.h"
#include "value/traits.h"

namespace gramme::protocol {

using namespace value;

Py_ssize_t index(Trace& trace, Value* value) {
  static PyObject* const index_name = intern("__index__");
  value = known(trace, trace.see(value));
  if (extends(value, &PyLong_Type)) {  // its own __index__ is not asked
    Value* held = payload_of(value);
    if (!held) cannot(Reason::ArgumentKind, "an index of type " + type_name(value));
    value = held;
  }
  if (value->kind == Kind::Tensor) cannot(Reason::DataDependentValue, "a tensor as an index");
  if (value->kind == Kind::Constant && PyIndex_Check(value->object)) {
    Py_ssize_t result = PyNumber_AsSsize_t(value->object, PyExc_IndexError);
    if (result == -1 && PyErr_Occurred()) raise_current(trace);
    return result;
  }
  if (PyType_IsSubtype(type_of(value), &PyLong_Type))
    cannot(Reason::ArgumentKind, "an index of type " + type_name(value));
  Value* method = own_method(trace, value, index_name);
  if (!method) raise_about(trace, PyExc_TypeError, "'{}' object cannot be interpreted as an integer", value);
  Value* result = known(trace, answer(trace, Answer::of_index, method));
  Py_ssize_t answered = PyLong_AsSsize_t(result->object);
  if (answered == -1 && PyErr_Occurred()) {  // callers raise different exceptions
    PyErr_Clear();
    cannot(Reason::ArgumentKind, "an __index__ beyond 64 bits");
  }
  return answered;
}

namespace {

Py_ssize_t object_length(Trace& trace, Value* object) {
  static PyObject* const len_name = intern("__len__");
  if (Value* payload = payload_for(trace, object, len_name)) return length(trace, payload);
  Value* method = own_method(trace, object, len_name);
  if (!method) {
    if (auto* tuple = as<Tuple>(object)) return static_cast<Py_ssize_t>(tuple->items.size());
    raise_about(trace, PyExc_TypeError, "object of type '{}' has no len()", object);
  }
  Value* result = known(trace, answer(trace, Answer::of_len, method));
  if (sign_of(result->object) < 0) raise(trace, PyExc_ValueError, "__len__() should return >= 0");
  Py_ssize_t size = PyLong_AsSsize_t(result->object);
  if (size == -1) {
    PyErr_Clear();
    raise(trace, PyExc_OverflowError, "cannot fit 'int' into an index-sized integer");
  }
  return size;
}

Py_ssize_t size_of(Trace& trace, Constant* constant) {
  Py_ssize_t size = PyObject_Size(constant->object);
  if (size < 0) raise_current(trace);
  return size;
}

Py_ssize_t size_of(Trace& trace, Tensor* tensor) {
  return static_cast<Py_ssize_t>(trace.fixed(tensor_length(trace, tensor)));
}
Py_ssize_t size_of(Trace&, Tuple* tuple) { return static_cast<Py_ssize_t>(tuple->items.size()); }
Py_ssize_t size_of(Trace&, List* list) { return static_cast<Py_ssize_t>(list->items().size()); }
Py_ssize_t size_of(Trace&, Deque* deque) { return static_cast<Py_ssize_t>(deque->items.size()); }
Py_ssize_t size_of(Trace&, Set* set) { return static_cast<Py_ssize_t>(set->entries.size()); }
Py_ssize_t size_of(Trace& trace, Dict* dict) { return static_cast<Py_ssize_t>(trace.dict_size(dict)); }
Py_ssize_t size_of(Trace& trace, View* view) { return length(trace, view->dict); }
Py_ssize_t size_of(Trace& trace, InstanceDict* names) {
  return static_cast<Py_ssize_t>(trace.all_attributes(names->owner).size());
}
[[noreturn]] Py_ssize_t size_of(Trace&, Namespace*) { cannot(Reason::ArgumentKind, "len(globals())"); }

}  // namespace

shape::SymInt tensor_length(Trace& trace, Tensor* tensor) {
  static PyObject* const name = intern("__len__");
  static PyObject* const dim_name = intern("dim");
  static PyObject* const shape_name = intern("shape");
  refuse_replaced(trace, {tensor}, {name, dim_name, shape_name});
  refuse_torch_function(trace, tensor, "len()");
  refuse_jagged(*tensor->record, "len()");
  if (trace.scope().modes().in_function_mode()) cannot(Reason::CallUnknown, "len() that a torch function mode sees");
  if (tensor->record->dim() == 0) raise(trace, PyExc_TypeError, "len() of a 0-d tensor");
  trace.scope().note_sizes(tensor, 0);
  return tensor->record->sizes[0];
}

Py_ssize_t length(Trace& trace, Value* object) {
  object = trace.see(object);
  if (has_own_class(object)) return object_length(trace, object);
  if (!has(object->kind, SIZED)) raise_about(trace, PyExc_TypeError, "object of type '{}' has no len()", object);
  return as_kind<SIZED>(object, [&](auto* container) { return size_of(trace, container); });
}

}  // namespace gramme::protocol
