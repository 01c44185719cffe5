// How the dict of a tensor is read and written, whether the tensor existed before the capture or an operation made it.
#include "trace/tensor_attributes.h"

#include "cpython/objects.h"
#include "trace/capture.h"

namespace gramme::trace {

using namespace value;
using SK = source::Kind;

bool is_outside_dict(Classes& classes, Tensor* tensor, PyObject* name) {
  static PyObject* const grad = intern("grad");
  PyObject* found = name == grad ? nullptr : classes.lookup(tensor->record->type, name);
  return name == grad || (found && Py_IS_TYPE(found, &PyMemberDescr_Type));
}

void refuse_unknown_dict(const Tensor* tensor) {
  if (!tensor->existing() && tensor->record->context) cannot(Reason::AttributeUnknown, "the __dict__ of a wrapper");
}

void note_dict(KnownObjects& objects, Tensor* tensor) {
  if (!tensor->existing() || tensor->dict_seen) return;
  objects.note_dict_of(tensor->object);
  tensor->dict_seen = true;
}

Value* instance_attribute(Capture& capture, Tensor* tensor, PyObject* name) {
  if (Attribute* attribute = find(tensor->attributes, name)) return attribute->value;
  refuse_unknown_dict(tensor);
  if (!tensor->existing()) return nullptr;
  PyObject* found = nullptr;
  cpython::instance_attribute(tensor->object, name, &found);
  note_dict(capture.objects, tensor);
  const source::Source* source = capture.pool->child(tensor->source, SK::Attr, name);
  if (found) return capture.see(capture.wrap(found, source));
  capture.facts.add_absent(source);
  return nullptr;
}

}  // namespace gramme::trace
