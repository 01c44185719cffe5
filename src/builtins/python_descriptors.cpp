// property, classmethod, staticmethod; cells; type.__setattr__; what abc does to a new class.
#include "builtins/python_support.h"
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

/// Of a class made in the capture: really, on the type that gives it its shape.
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
           {{"__setattr__", &set_attribute_of_type}, {"__delattr__", &delete_attribute_of_type}});
  add_rows("_abc", Takes::Asked, {{"_abc_init", &init_abstract_class}});
}

}  // namespace gramme::builtins
