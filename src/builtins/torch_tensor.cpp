// Tensor attributes: a table of those that the record determines, then lookup in the order of object.__getattribute__.
#include "builtins/torch_tensor.h"

#include <opcode.h>
#include <structmember.h>

#include <algorithm>
#include <unordered_map>

#include "aten/classes.h"
#include "base/once.h"
#include "base/text.h"
#include "builtins/torch_leaves.h"
#include "builtins/torch_overrides.h"
#include "builtins/torch_wrappers.h"
#include "cpython/objects.h"
#include "protocol/attributes.h"
#include "torch/names.h"
#include "trace/dying.h"
#include "trace/tensor_attributes.h"
#include "trace/wrappers.h"

namespace gramme::builtins {

using namespace value;
using SK = source::Kind;

namespace {
PyTypeObject* size_type() {
  return once([] { return reinterpret_cast<PyTypeObject*>(real("torch", "Size")); });
}
}  // namespace

value::Tuple* size_of(Trace& trace, const meta::Record& record) {
  protocol::refuse_jagged(record, "all sizes");
  std::vector<Value*> items;
  items.reserve(record.sizes.size());
  for (shape::SymInt size : record.sizes) items.push_back(trace.integer(size));
  Tuple* size = trace.tuple(std::move(items));
  size->type = size_type();
  return size;
}

Value* element_count(Trace& trace, const meta::Record& record) {
  protocol::refuse_jagged(record, "the number of elements");
  shape::Expr count = shape::constant(1);
  for (shape::SymInt size : record.sizes) count = multiply(count, size.expr());
  if (count) return trace.numbers.expression(count);
  int64_t known = 1;
  for (shape::SymInt size : record.sizes) known *= trace.fixed(size);
  return trace.integer(known);
}

Value* dim_of(Trace& trace, Tensor* tensor) {
  if (!tensor->record->opaque) return trace.integer(tensor->record->dim());
  return trace.integer(static_cast<int64_t>(trace::sizes_of_jagged(trace, tensor).size()));
}

namespace {

/// Computes an attribute. May end the segment; null means that the attribute is looked up like any other.
using Getter = Value* (*)(Trace& trace, Tensor* tensor);

std::string text_of(PyObject* name) { return utf8_of(name); }

// ---- constants of the record

/// The sizes that a jagged tensor's class keeps, whose ragged one only a tensor from outside of the graph has.
Value* jagged_shape(Trace& trace, Tensor* tensor) {
  static PyObject* const name = of_torch::attribute(of_torch::JaggedSize);
  auto* kept = tensor->existing() ? as<Tuple>(trace.see(protocol::get_attribute(trace, tensor, name))) : nullptr;
  if (!kept) protocol::refuse_jagged(*tensor->record, "Tensor.shape");
  Tuple* size = trace.tuple(kept->items);
  size->type = size_type();
  return size;
}

Value* shape(Trace& trace, Tensor* tensor) {
  if (tensor->record->opaque) return jagged_shape(trace, tensor);
  trace.scope().note_sizes(tensor, tensor->record->sizes.size());
  return size_of(trace, *tensor->record);
}
Value* ndim(Trace& trace, Tensor* tensor) { return dim_of(trace, tensor); }
Value* dtype(Trace& trace, Tensor* tensor) { return trace.constant(meta::dtype_object(*tensor->record)); }
Value* device(Trace& trace, Tensor* tensor) { return trace.constant(meta::device_object(*tensor->record)); }
Value* layout(Trace& trace, Tensor* tensor) {
  refuse_of_gradient(trace, "layout");
  return trace.constant(meta::layout_object(*tensor->record));
}
Value* requires_grad(Trace& trace, Tensor* tensor) {
  refuse_of_gradient(trace, "requires_grad");
  return trace.boolean(trace.scope().requires_grad(tensor));
}
Value* is_leaf(Trace& trace, Tensor* tensor) {
  refuse_of_gradient(trace, "is_leaf");
  return trace.boolean(trace.scope().is_leaf(tensor));
}

int64_t item_size(const Tensor* tensor) {
  Owned<> size = take(PyObject_GetAttrString(meta::dtype_object(*tensor->record), "itemsize"));
  return PyLong_AsLongLong(size.get());
}
Value* itemsize(Trace& trace, Tensor* tensor) { return trace.integer(item_size(tensor)); }
Value* nbytes(Trace& trace, Tensor* tensor) {
  return protocol::binary(trace, NB_MULTIPLY, trace.integer(item_size(tensor)), element_count(trace, *tensor->record));
}

/// x.is_cuda, x.is_cpu, …
template <Text type>
Value* on_device(Trace& trace, Tensor* tensor) {
  Owned<> name = take(PyObject_GetAttrString(meta::device_object(*tensor->record), "type"));
  return trace.boolean(PyUnicode_CompareWithASCIIString(name.get(), type.text) == 0);
}

/// x.is_sparse, …: true if the layout is torch.<name>.
template <Text name>
Value* has_layout(Trace& trace, Tensor* tensor) {
  refuse_of_gradient(trace, "the layout");
  PyObject* const layout = once([] { return real("torch", name.text); });
  return trace.boolean(meta::layout_object(*tensor->record) == layout);
}

Value* is_quantized(Trace& trace, Tensor* tensor) {
  const auto* const quantized = once([] {
    return new std::array{real("torch", "quint8"), real("torch", "qint8"), real("torch", "qint32"),
                          real("torch", "quint4x2"), real("torch", "quint2x4")};
  });
  PyObject* dtype = meta::dtype_object(*tensor->record);
  return trace.boolean(std::find(quantized->begin(), quantized->end(), dtype) != quantized->end());
}

Value* is_nested(Trace& trace, Tensor* tensor) {  // no capture has nested tensors other than jagged ones
  return trace.boolean(tensor->record->opaque);
}

Value* tensor_class(Trace& trace, Tensor* tensor) { return protocol::class_value(trace, tensor->record->type); }

// ---- tensors

/// x.T, x.real, …: getattr(x, name) in the graph, as in Dynamo.
template <Text name>
Value* in_graph(Trace& trace, Tensor* tensor) {
  PyObject* const getattr = once([] { return real("builtins", "getattr"); });
  return trace.emit(getattr, {tensor, trace.text(name.text)});
}

Value* data(Trace& trace, Tensor* tensor) {
  PyObject* const get_data = of_torch::object(of_torch::GetDataAttr);
  return trace.emit(get_data, {tensor});
}

bool has_grad_fn(Trace& trace, const Tensor* tensor) {
  return trace.scope().requires_grad(tensor) && !trace.scope().is_leaf(tensor);
}

PyObject* const kGrad = intern("grad");

Value* grad(Trace& trace, Tensor* tensor) {
  refuse_of_gradient(trace, "grad");
  if (Attribute* attribute = find(tensor->attributes, kGrad)) return attribute->value;
  if (has_grad_fn(trace, tensor)) cannot(Reason::AttributeUnknown, "the grad of a tensor that is not a leaf");  // warns
  if (!tensor->existing()) return trace.none();
  Owned<> now = take(aten::grad_of(tensor->object));
  return trace.see(trace.wrap(now.get(), trace.pool->child(tensor->source, SK::Grad)));
}

Value* retains_grad(Trace& trace, Tensor* tensor) {
  refuse_of_gradient(trace, "retains_grad");
  bool unknown = tensor->existing() && has_grad_fn(trace, tensor) && !tensor->retains_grad;
  if (unknown) cannot(Reason::AttributeUnknown, "retains_grad of a tensor that existed before");
  return trace.boolean(tensor->retains_grad);
}

Value* grad_fn(Trace& trace, Tensor* tensor) {
  refuse_of_gradient(trace, "grad_fn");
  if (has_grad_fn(trace, tensor)) cannot(Reason::AttributeUnknown, "the grad_fn of a tensor");
  return trace.none();
}

// ---- the table

/// Rows by interned name.
class Getters {
 public:
  Getters(std::initializer_list<std::pair<const char*, Getter>> rows) {
    for (auto [name, getter] : rows) by_name_.emplace(intern(name), getter);
  }
  Getter find(PyObject* name) const {
    auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  std::unordered_map<PyObject*, Getter> by_name_;
};

const Getters& getters() {
  // no Python: interned names
  static const Getters* const rows = new Getters{
      {"shape", &shape},
      {"ndim", &ndim},
      {"dtype", &dtype},
      {"device", &device},
      {"layout", &layout},
      {"requires_grad", &requires_grad},
      {"is_leaf", &is_leaf},
      {"itemsize", &itemsize},
      {"nbytes", &nbytes},
      {"is_cpu", &on_device<"cpu">},
      {"is_cuda", &on_device<"cuda">},
      {"is_meta", &on_device<"meta">},
      {"is_mps", &on_device<"mps">},
      {"is_xpu", &on_device<"xpu">},
      {"is_xla", &on_device<"xla">},
      {"is_ipu", &on_device<"ipu">},
      {"is_mtia", &on_device<"mtia">},
      {"is_maia", &on_device<"maia">},
      {"is_vulkan", &on_device<"vulkan">},
      {"is_sparse", &has_layout<"sparse_coo">},
      {"is_sparse_csr", &has_layout<"sparse_csr">},
      {"is_mkldnn", &has_layout<"_mkldnn">},  // no name of torch: a layout, asked for by a public attribute
      {"is_quantized", &is_quantized},
      {"is_nested", &is_nested},
      {"__class__", &tensor_class},
      {"T", &in_graph<"T">},
      {"mT", &in_graph<"mT">},
      {"H", &in_graph<"H">},
      {"mH", &in_graph<"mH">},
      {"real", &in_graph<"real">},
      {"imag", &in_graph<"imag">},
      {"data", &data},
      {"grad", &grad},
      {of_torch::text(of_torch::OtherGrad), &grad},
      {"grad_fn", &grad_fn},
      {"retains_grad", &retains_grad},
  };
  return *rows;
}

// ---- attributes of the instance

/// An attribute of the instance, stored in the capture or existing. Null if there is none, which is guarded.
Value* own(Trace& trace, Tensor* tensor, PyObject* name) {
  const bool is_unknown = !tensor->existing() && tensor->record->context && !find(tensor->attributes, name);
  return is_unknown ? wrapper_attribute(trace, tensor, nullptr, name) : trace::instance_attribute(trace, tensor, name);
}

/// The values of `tensor.__dict__`, one for each tensor.
struct InstanceDicts {
  std::unordered_map<const Tensor*, Value*> known;
};

/// A member of `__slots__`: stored in the capture or existing; null if it is empty. Ends the segment for a tensor made
/// by an operation, whose class may set its slots.
Value* slot(Trace& trace, Tensor* tensor, PyObject* member, PyObject* name) {
  if (Attribute* attribute = find(tensor->attributes, name)) return attribute->value;
  if (!tensor->existing() && tensor->record->context) return wrapper_attribute(trace, tensor, member, name);
  Py_ssize_t offset = cpython::slot_offset(member, tensor->record->type);
  if (offset < 0 || !tensor->existing())
    cannot(Reason::AttributeUnknown, "the member " + text_of(name) + " of a tensor");
  const source::Source* source = trace.pool->child(tensor->source, SK::Slot, name);
  PyObject* found = *cpython::slot_address(tensor->object, offset);
  if (!found) {
    trace.facts.add_absent(source);
    return nullptr;
  }
  trace.facts.add({source, guards::Kind::Present, {}});
  return trace.see(trace.wrap(found, source));
}

bool is_method(PyObject* found) {
  return Py_IS_TYPE(found, &PyMethodDescr_Type) || Py_IS_TYPE(found, &PyWrapperDescr_Type) || PyFunction_Check(found);
}

PyObject* interned(Trace& trace, PyObject* name) {
  if (PyUnicode_CHECK_INTERNED(name)) return name;
  PyObject* copy = Py_NewRef(name);
  PyUnicode_InternInPlace(&copy);
  return trace.keep(Owned<>::steal(copy));
}

}  // namespace

namespace {

/// Ends the segment unless PyTorch's own descriptor handles the attribute: not replaced, and no class is asked first.
void refuse_override(Trace& trace, Tensor* tensor, PyObject* name) {
  static PyObject *const class_name = intern("__class__"), *const dict_name = intern("__dict__");
  PyObject* found = trace.type_lookup(tensor->record->type, name);
  if (!found || !Py_IS_TYPE(found, &PyGetSetDescr_Type))
    cannot(Reason::AttributeUnknown, "Tensor." + text_of(name) + ", which the program replaced");
  if (name == class_name || name == dict_name) return;  // PyTorch asks no class
  protocol::refuse_torch_function(trace, tensor, "Tensor." + text_of(name));
  if (name == kGrad && protocol::asked_for(trace, tensor) == protocol::Asked::Default)
    cannot(Reason::AttributeUnknown, "the grad of a tensor of a subclass, which gets the class");
}

}  // namespace

namespace {

/// True for getters that return a tensor, which then gets the class.
bool gives_tensor(Getter getter) {
  static constexpr Getter kTensors[] = {&in_graph<"T">,    &in_graph<"mT">,   &in_graph<"H">, &in_graph<"mH">,
                                        &in_graph<"real">, &in_graph<"imag">, &data,          &grad};
  return std::ranges::find(kTensors, getter) != std::end(kTensors);
}

/// A C attribute for which the tensor's class is asked. PyTorch's own handler converts only tensors.
Value* asked_attribute(Trace& trace, Tensor* tensor, PyObject* name) {
  const protocol::Asked asked = protocol::asked_for(trace, tensor);
  if (asked == protocol::Asked::Nobody) return nullptr;
  const Getter getter = getters().find(name);
  if (asked == protocol::Asked::Default && getter && !gives_tensor(getter)) return nullptr;
  PyObject* found = trace.type_lookup(tensor->record->type, name);
  return found && Py_IS_TYPE(found, &PyGetSetDescr_Type) ? ask_for_attribute(trace, tensor, found) : nullptr;
}

/// The lookup of object.__getattribute__; null if there is no such attribute.
Value* generic_attribute(Trace& trace, Tensor* tensor, PyObject* name) {
  static PyObject* const dict_name = intern("__dict__");
  if (name == dict_name && !tensor->record->context) {
    refuse_override(trace, tensor, name);
    return protocol::instance_dict(trace, tensor, trace.state<InstanceDicts>().known[tensor]);
  }
  if (trace.scope().asks_classes())
    if (Value* value = asked_attribute(trace, tensor, name)) return value;
  if (Getter getter = getters().find(name)) {
    refuse_override(trace, tensor, name);
    return getter(trace, tensor);
  }
  PyTypeObject* type = tensor->record->type;
  PyObject* found = trace.type_lookup(type, name);
  if (found && Py_TYPE(found)->tp_descr_set) {
    if (Py_IS_TYPE(found, &PyMemberDescr_Type)) return slot(trace, tensor, found, name);
    if (Py_IS_TYPE(found, &PyGetSetDescr_Type)) cannot(Reason::AttributeUnknown, "Tensor." + text_of(name));
    return protocol::bind(trace, found, trace.type_attribute(type, name), tensor, type);
  }
  const bool method = found && is_method(found);
  if (!method || protocol::is_hidden(trace, tensor, name))
    if (Value* value = own(trace, tensor, name)) return value;
  if (!found) return nullptr;
  if (method && !PyFunction_Check(found)) {
    if (!PyType_IsSubtype(type, reinterpret_cast<PyDescrObject*>(found)->d_type))
      cannot(Reason::AttributeUnknown, "a method in C on an object of another class");
    auto* bound = trace.make<BuiltinMethod>(nullptr, found);
    bound->self = tensor;
    return bound;
  }
  return protocol::bind(trace, found, trace.type_attribute(type, name), tensor, type);
}

/// True if the class defines this hook (__getattr__, __setattr__, …) itself.
bool has_hook(Trace& trace, PyTypeObject* type, PyObject* name) {
  PyObject* hook = trace.type_lookup(type, name);
  return hook && !Py_IS_TYPE(hook, &PyWrapperDescr_Type);
}

}  // namespace

Value* tensor_attribute(Trace& trace, Tensor* tensor, PyObject* name) {
  static PyObject *const whole = intern("__getattribute__"), *const missing = intern("__getattr__");
  name = interned(trace, name);
  PyTypeObject* type = tensor->record->type;
  if (aten::is_exact_tensor_type(type)) return generic_attribute(trace, tensor, name);
  if (has_hook(trace, type, whole)) cannot(Reason::AttributeUnknown, "a tensor whose class has a __getattribute__");
  PyObject* hook = trace.type_lookup(type, missing);
  if (!hook) return generic_attribute(trace, tensor, name);
  Value* found = nullptr;
  raises(trace, PyExc_AttributeError, [&, self = tensor] { found = generic_attribute(trace, self, name); });
  if (found) return found;
  Value* method = protocol::bind(trace, hook, trace.type_attribute(type, missing), tensor, type);
  return protocol::call(trace, method, {trace.constant(name)});
}

namespace {

/// x.grad = value: makes the setter's checks now, so that the store in replay cannot fail.
Value* checked_grad(Trace& trace, Tensor* tensor, Value* value) {
  if (!value) return trace.none();
  value = trace.see(value);
  if (value == trace.none()) return value;
  auto* grad = as<Tensor>(value);
  if (!grad || grad == tensor) cannot(Reason::MutationUnsupported, "Tensor.grad set to anything but another tensor");
  const meta::Record &to = *tensor->record, &from = *grad->record;
  bool same = same_numbers(trace, to.sizes, from.sizes) && to.dtype == from.dtype &&
              to.device_type == from.device_type && to.device_index == from.device_index && to.layout == from.layout;
  if (!same) cannot(Reason::MutationUnsupported, "Tensor.grad set to a tensor of another shape, dtype or device");
  return grad;
}

/// Stores what no dict holds: a slot, or the gradient.
void store(Trace& trace, Tensor* tensor, PyObject* name, Value* value) {
  trace.confinement.changes(tensor);
  if (Attribute* attribute = find(tensor->attributes, name))
    attribute->value = value;
  else
    tensor->attributes.push_back({name, value});
  if (tensor->existing()) trace.note_effect(effects::Kind::StoreAttr, tensor, name);
}

void store_slot(Trace& trace, Tensor* tensor, PyObject* member, PyObject* name, Value* value) {
  const bool fixed = reinterpret_cast<PyMemberDescrObject*>(member)->d_member->flags & READONLY;
  if (fixed || trace.is_made(tensor->record->type)) cannot(Reason::MutationUnsupported, "Tensor." + text_of(name));
  const bool asked = !value || tensor->existing() || find(tensor->attributes, name);
  Value* old = asked ? slot(trace, tensor, member, name) : nullptr;
  if (!value && !old) protocol::raise(trace, PyExc_AttributeError, text_of(name));
  if (old && old->existing()) trace::refuse_death(trace, old->object);
  store(trace, tensor, name, value);
}

}  // namespace

void set_tensor_attribute(Trace& trace, Tensor* tensor, PyObject* name, Value* value) {
  static PyObject *const setting = intern("__setattr__"), *const deleting = intern("__delattr__");
  if (!aten::is_exact_tensor_type(tensor->record->type) &&
      has_hook(trace, tensor->record->type, value ? setting : deleting))
    cannot(Reason::MutationUnsupported, "an attribute of a tensor whose class takes them itself");
  static PyObject* const kRequiresGrad = intern("requires_grad");
  static PyObject* const kData = intern("data");
  static PyObject* const other_grad = of_torch::attribute(of_torch::OtherGrad);
  name = interned(trace, name);
  if (name == kGrad || name == other_grad || name == kRequiresGrad || name == kData)
    refuse_override(trace, tensor, name == other_grad ? kGrad : name);
  if (name == kGrad || name == other_grad) return store(trace, tensor, kGrad, checked_grad(trace, tensor, value));
  if (name == kRequiresGrad && value) {
    PyObject* wanted = trace.constant_of(value);
    if (!wanted || !PyBool_Check(wanted)) cannot(Reason::MutationUnsupported, "Tensor.requires_grad");
    return set_requires_grad(trace, tensor, wanted == Py_True);
  }
  if (name == kData) return set_data(trace, tensor, value);
  PyObject* found = trace.type_lookup(tensor->record->type, name);
  if (found && Py_IS_TYPE(found, &PyMemberDescr_Type)) return store_slot(trace, tensor, found, name, value);
  if (found && Py_IS_TYPE(found, &PyGetSetDescr_Type)) cannot(Reason::MutationUnsupported, "Tensor." + text_of(name));
  if (protocol::descriptor_took(trace, tensor, tensor->record->type, found, name, value)) return;
  if (!value && !own(trace, tensor, name))
    protocol::raise(
        trace, PyExc_AttributeError,
        "'" + std::string(tensor->record->type->tp_name) + "' object has no attribute '" + text_of(name) + "'");
  trace.store_own_attribute(tensor, name, value);
}

}  // namespace gramme::builtins
