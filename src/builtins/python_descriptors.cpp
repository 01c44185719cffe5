// property, classmethod, staticmethod; cells; type.__setattr__; the initialisation of abstract classes.
#include "builtins/python_support.h"
#include "cpython/objects.h"
#include "protocol/attributes.h"
#include "protocol/names.h"

namespace gramme::builtins {
namespace {

namespace names = protocol::names;
using value::Object;

// ---- property

constexpr size_t kParts = 3;

PyObject* part_name(size_t i) {
  PyObject* const parts[kParts] = {names::k_fget, names::k_fset, names::k_fdel};
  return parts[i];
}

Value* property_of(Trace& trace, const std::array<Value*, kParts>& parts) {
  auto* made = trace.make<Object>();
  made->type = &PyProperty_Type;
  for (size_t i = 0; i < kParts; ++i) made->slots.push_back({part_name(i), parts[i] ? parts[i] : trace.none()});
  return made;
}

Value* make_property(Trace& trace, const Args& args) {
  auto [get, set, del, doc] = bind(args, 0, {"fget", "fset", "fdel", "doc"});
  if (doc) cannot(Reason::ArgumentKind, "property() with a text");
  return property_of(trace, {get, set, del});
}

/// property.getter, setter and deleter: a copy with one part replaced.
template <size_t part>
Value* with_part(Trace& trace, const Args& args) {
  auto [self, function] = positional<2>(args, 2);
  auto* before = trace.see_as<Object>(self);
  if (!before || before->type != &PyProperty_Type) cannot(Reason::ArgumentKind, "a subclass of property");
  std::array<Value*, kParts> parts;
  for (size_t i = 0; i < kParts; ++i) parts[i] = protocol::get_attribute(trace, before, part_name(i));
  parts[part] = function;
  return property_of(trace, parts);
}

template <PyTypeObject* type>
Value* make_method_descriptor(Trace& trace, const Args& args) {
  auto [function] = positional<1>(args, 1);
  return protocol::method_descriptor(trace, type, function);
}

// ---- fields of C types, read through their descriptors

/// The object if reading its attribute gives what the descriptor gives; ends the segment if its class may answer
/// differently.
Value* described_object(Trace& trace, Value* self, Value* object) {
  PyObject* descriptor = trace.see(self)->object;
  Value* seen = trace.see(object);
  PyTypeObject* type = protocol::type_of(seen);
  const bool plain = seen->kind == value::Kind::Object || seen->kind == value::Kind::Tensor;
  if (!plain || !descriptor || trace.type_lookup(type, PyDescr_NAME(descriptor)) != descriptor)
    cannot(Reason::ArgumentKind, "a descriptor in C asked about another class");
  for (PyObject* hook : {names::k_getattr, names::k_getattribute, names::k_setattr})
    if (PyObject* found = trace.type_lookup(type, hook); found && PyFunction_Check(found))
      cannot(Reason::ArgumentKind, "a descriptor in C asked about an object with attributes of its own");
  return seen;
}

Value* get_field(Trace& trace, const Args& args) {
  auto [self, object, type] = positional<3>(args, 2);
  if (is_none(trace, object)) return trace.see(self);
  Value* seen = described_object(trace, self, object);
  PyObject* descriptor = trace.see(self)->object;
  // No lookup, which might come back to this descriptor.
  auto* instance = value::as<Object>(seen);
  Value* found = instance ? protocol::c_descriptor(trace, instance, descriptor, PyDescr_NAME(descriptor))
                          : protocol::get_attribute(trace, seen, PyDescr_NAME(descriptor));
  if (!found) cannot(Reason::AttributeUnknown, "a field that is not there");
  return found;
}

Value* set_field(Trace& trace, const Args& args) {
  auto [self, object, item] = positional<3>(args, 3);
  Value* seen = described_object(trace, self, object);
  protocol::set_attribute(trace, seen, PyDescr_NAME(trace.see(self)->object), item);
  return trace.none();
}

/// Models `__get__` of an existing property.
Value* get_property(Trace& trace, const Args& args) {
  auto [self, object, type] = positional<3>(args, 2);
  Value* seen = trace.see(self);
  if (!seen->object || !Py_IS_TYPE(seen->object, &PyProperty_Type))
    cannot(Reason::ArgumentKind, "property.__get__ of a subclass");
  if (is_none(trace, object)) return seen;
  return protocol::bind(trace, seen->object, seen, object, protocol::type_of(trace.see(object)));
}

// ---- cells

Value* make_cell(Trace& trace, const Args& args) {
  auto [content] = positional<1>(args, 0);
  auto* cell = trace.make<value::Cell>();
  cell->content = content;
  return cell;
}

// ---- classes

Value* set_attribute_of_type(Trace& trace, const Args& args) {
  auto [self, name, item] = positional<3>(args, 3);
  class_argument(trace, self);
  protocol::generic_set_class_attribute(trace, trace.see_as<value::Class>(self), name_argument(trace, name), item);
  return trace.none();
}

Value* delete_attribute_of_type(Trace& trace, const Args& args) {
  auto [self, name] = positional<2>(args, 2);
  class_argument(trace, self);
  protocol::generic_set_class_attribute(trace, trace.see_as<value::Class>(self), name_argument(trace, name), nullptr);
  return trace.none();
}

/// type.__subclasses__(), without classes that the capture made.
Value* subclasses_of(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  PyTypeObject* cls = class_argument(trace, self);
  Owned<> below = cpython::subclasses(cls);
  std::vector<Value*> items;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(below.get()); ++i) {
    auto* one = reinterpret_cast<PyTypeObject*>(PyList_GET_ITEM(below.get(), i));
    if (trace.is_made(one) || trace.is_made(cls))
      cannot(Reason::ArgumentKind, "__subclasses__() with a class made in the capture");
    items.push_back(protocol::class_value(trace, one));
  }
  if (trace.is_made(cls)) return trace.list(std::move(items));
  const source::Source* source = trace.pool->pinned(reinterpret_cast<PyObject*>(cls));
  trace.facts.add({source, guards::Kind::Subclasses, take(PyList_AsTuple(below.get()))});
  return trace.list(std::move(items));
}

/// _abc_init() of a class made in the capture: called for real on its real type.
Value* init_abstract_class(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  auto* cls = trace.see_as<value::Class>(self);
  if (!cls || cls->existing()) cannot(Reason::ArgumentKind, "_abc_init() of a class that existed before");
  call_real(trace, real("_abc", "_abc_init"), {cls->object});
  cls->abstract = true;
  return trace.none();
}

}  // namespace

void register_descriptors() {
  add_rows("builtins", Takes::Asked,
           {
               {"property", &make_property},
               {"property.getter", &with_part<0>},
               {"property.setter", &with_part<1>},
               {"property.deleter", &with_part<2>},
               {"classmethod", &make_method_descriptor<&PyClassMethod_Type>},
               {"staticmethod", &make_method_descriptor<&PyStaticMethod_Type>},
           });
  add_rows("types", Takes::Asked, {{"CellType", &make_cell}});
  add_rows(&PyType_Type, Takes::Asked,
           {{"__setattr__", &set_attribute_of_type},
            {"__delattr__", &delete_attribute_of_type},
            {"__subclasses__", &subclasses_of}});
  for (PyTypeObject* type : {&PyGetSetDescr_Type, &PyMemberDescr_Type})
    add_rows(type, Takes::Asked, {{"__get__", &get_field}, {"__set__", &set_field}});
  add_rows(&PyProperty_Type, Takes::Asked, {{"__get__", &get_property}});
  add_rows("_abc", Takes::Asked, {{"_abc_init", &init_abstract_class}});
}

}  // namespace gramme::builtins
