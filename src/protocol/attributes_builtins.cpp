// Attributes of instances of C types: methods, and fields that are read without a call.
#include "base/imported.h"
#include "base/once.h"
#include "cpython/objects.h"
#include "protocol/attributes.h"
#include "protocol/names.h"
#include "protocol/numpy.h"
#include "protocol/subscript.h"
#include "source/constant.h"
#include "trace/getters.h"

namespace gramme::protocol {

using namespace value;
using namespace names;

Value* tuple_field(Tuple* tuple, PyObject* found, PyObject* name) {
  PyTypeObject* const getter = once([] {
    Owned<> module = take(import_module("_collections"));
    return reinterpret_cast<PyTypeObject*>(take(PyObject_GetAttrString(module.get(), "_tuplegetter")).release());
  });
  if (Py_IS_TYPE(found, getter)) {
    Owned<> reduced = take(PyObject_CallMethod(found, "__reduce__", nullptr));
    const size_t index = PyLong_AsSize_t(PyTuple_GET_ITEM(PyTuple_GET_ITEM(reduced.get(), 1), 0));
    if (index >= tuple->items.size()) cannot(Reason::AttributeUnknown, "a field that the tuple is too short for");
    return tuple->items[index];
  }
  if (!Py_IS_TYPE(found, &PyMemberDescr_Type)) return nullptr;
  PyObject* fields = cpython::type_lookup(tuple->type, k_match_args);
  for (Py_ssize_t i = 0; fields && i < PyTuple_GET_SIZE(fields); ++i)
    if (PyUnicode_Compare(PyTuple_GET_ITEM(fields, i), name) == 0) return tuple->items.at(i);
  return nullptr;
}

namespace {

Value* slice_or_partial(Trace& trace, Value* value, PyObject* name) {
  if (auto* partial = as<Partial>(value)) return partial_attribute(trace, partial, name);
  auto* slice = as<Slice>(value);
  if (!slice) return nullptr;
  std::string text = text_of(name);
  return text == "start" ? slice->start : text == "stop" ? slice->stop : text == "step" ? slice->step : nullptr;
}

}  // namespace

/// Values of types in C: their methods, and fields that are read without a call.
Value* builtin_attribute(Trace& trace, Value* value, PyObject* name) {
  if (name == k_class) return class_value(trace, type_of(value));
  if (Value* found = slice_or_partial(trace, value, name)) return found;
  if (auto* cell = as<Cell>(value); cell && text_of(name) == "cell_contents") {
    if (Value* content = trace.cell_content(cell)) return content;
    raise(trace, PyExc_ValueError, "Cell is empty");
  }
  PyTypeObject* type = type_of(value);
  PyObject* found = trace.type_lookup(type, name);
  const bool generic = type->tp_getattro == PyObject_GenericGetAttr;
  if (value->kind == Kind::Constant && (!generic || has_instance_dict(type))) {
    if (Value* part = typing_attribute(trace, value->object, name)) return part;
    if (!generic || !found) cannot(Reason::AttributeUnknown, std::string(type->tp_name) + "." + text_of(name));
  }
  if (auto* dict = as<Dict>(value); dict && has_instance_dict(type) && !(found && is_data_descriptor(trace, found)))
    if (Value* own = trace.own_attribute(dict, name)) return own;
  if (!found) return nullptr;
  if (auto* tuple = as<Tuple>(value))
    if (Value* field = tuple_field(tuple, found, name)) return field;
  if (value->kind == Kind::Constant && is_data_descriptor(trace, found)) {
    Owned<> real = take(PyObject_GetAttr(value->object, name));
    return trace.adopt(real);
  }
  if (auto* deque = as<Deque>(value); deque && text_of(name) == "maxlen")
    return deque->maxlen < 0 ? trace.none() : trace.integer(deque->maxlen);
  if (auto* dict = as<Dict>(value); dict && text_of(name) == "default_factory") return or_none(trace, dict->factory);
  if (value->kind == Kind::Builtin || value->kind == Kind::BuiltinMethod) {
    if (value->kind == Kind::Builtin && name == k_get && Py_IS_TYPE(value->object, &PyGetSetDescr_Type)) {
      PyObject* getter = trace.keep(take(PyObject_GetAttr(value->object, name)));
      if (trace::attribute_of_getter(getter)) return trace.pinned(getter);
    }
    if (find_model(found) || is_method_of_ufunc(found)) return bind(trace, found, trace.pinned(found), value, type);
    if (name == k_self && value->kind == Kind::BuiltinMethod) return static_cast<BuiltinMethod*>(value)->self;
    Owned<> real = Owned<>::steal(PyObject_GetAttr(value->object, name));
    if (!real) {
      PyErr_Clear();
      if (value->kind == Kind::Builtin) return nullptr;
      cannot(Reason::AttributeUnknown, "an attribute of a bound C function: " + text_of(name));
    }
    if (source::is_constant(real.get())) return trace.constant(real);
    cannot(Reason::AttributeUnknown, "an attribute of a C function: " + text_of(name));
  }
  if (is_data_descriptor(trace, found) && !Py_IS_TYPE(found, &PyProperty_Type))
    cannot(Reason::AttributeUnknown, std::string(type->tp_name) + "." + text_of(name));
  return bind(trace, found, trace.pinned(found), value, type);
}

}  // namespace gramme::protocol
