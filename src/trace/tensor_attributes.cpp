// How the dict of a tensor is read and written, whether the tensor existed before the capture or an operation made it.
#include "trace/tensor_attributes.h"

#include <algorithm>

#include "cpython/objects.h"
#include "trace/capture.h"

namespace gramme::trace {

using namespace value;
using SK = source::Kind;

namespace {

/// True for names that no dict holds: slots, and what torch keeps in the tensor itself.
bool is_elsewhere(Capture& capture, Tensor* tensor, PyObject* name) {
  static PyObject* const grad = intern("grad");
  PyObject* found = name == grad ? nullptr : capture.type_lookup(tensor->record->type, name);
  return name == grad || (found && Py_IS_TYPE(found, &PyMemberDescr_Type));
}

}  // namespace

Attribute* stored_attribute(Tensor* tensor, PyObject* name) {
  for (Attribute& attribute : tensor->attributes)
    if (attribute.name == name) return &attribute;
  return nullptr;
}

void note_dict(Capture& capture, Tensor* tensor) {
  if (!tensor->existing() || tensor->dict_seen) return;
  capture.note_dict_of(tensor->object);
  tensor->dict_seen = true;
}

Value* instance_attribute(Capture& capture, Tensor* tensor, PyObject* name) {
  if (Attribute* attribute = stored_attribute(tensor, name)) return attribute->value;
  if (!tensor->existing()) {
    if (tensor->record->context) cannot(Reason::AttributeUnknown, "the __dict__ of a wrapper");
    return nullptr;
  }
  PyObject* found = nullptr;
  cpython::instance_attribute(tensor->object, name, &found);
  note_dict(capture, tensor);
  const source::Source* source = capture.pool->child(tensor->source, SK::Attr, name);
  if (found) return capture.see(capture.wrap(found, source));
  capture.guard_absent(source);
  return nullptr;
}

Attributes instance_attributes(Capture& capture, Tensor* tensor) {
  Attributes live;
  if (tensor->existing()) {
    note_dict(capture, tensor);
    const Owned<> dict = take(PyObject_GenericGetDict(tensor->object, nullptr));
    const Owned<> keys = take(PySequence_Tuple(dict.get()));
    capture.guard({capture.pool->child(tensor->source, SK::InstanceDict), guards::Kind::Keys, keys});
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i) {
      PyObject* name = PyTuple_GET_ITEM(keys.get(), i);
      if (!PyUnicode_CheckExact(name)) cannot(Reason::AttributeUnknown, "a tensor's dict whose keys are not all str");
      Py_INCREF(name);  // counts by hand: InternInPlace replaces a reference
      PyUnicode_InternInPlace(&name);
      capture.keep(Owned<>::steal(name));
      const effects::Effect* written = capture.effects().find(effects::Kind::StoreAttr, tensor, name);
      if (written && written->anew) continue;  // stored again after a deletion, so it comes after the others
      if (Value* value = instance_attribute(capture, tensor, name)) live.push_back({name, value});
    }
  } else if (tensor->record->context) {
    cannot(Reason::AttributeUnknown, "the __dict__ of a wrapper");
  }
  for (const Attribute& stored : tensor->attributes) {
    const bool is_listed = std::ranges::any_of(live, [&](const Attribute& each) { return each.name == stored.name; });
    if (stored.value && !is_listed && !is_elsewhere(capture, tensor, stored.name)) live.push_back(stored);
  }
  return live;
}

}  // namespace gramme::trace
