// Tensor subclasses that wrap other tensors. Their __tensor_flatten__ is traced to find the inner tensors, so
// everything it reads is guarded. Calls of their classes on tensors of the graph become nodes.
#include "builtins/torch_wrappers.h"

#include <algorithm>

#include "aten/classes.h"
#include "base/imported.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "meta/ragged.h"
#include "meta/wrapped.h"
#include "source/constant.h"
#include "trace/made_instance.h"
#include "trace/wrappers.h"

namespace gramme::builtins {

using namespace value;

namespace {

/// Scope in which __torch_function__ is off and no lasting change is allowed.
class Looking {
 public:
  explicit Looking(Trace& trace)
      : trace_(trace), off_(trace.scope().modes()), effects_(trace.effects().entries().size()), nodes_(nodes()) {}
  void check(PyTypeObject* type) const {
    if (trace_.effects().entries().size() != effects_ || nodes() != nodes_)
      cannot(Reason::TensorSubclass, std::string(type->tp_name) + ".__tensor_flatten__ does more than tell");
  }

 private:
  size_t nodes() const { return trace_.scope().graph().length(); }
  Trace& trace_;
  trace::HandlersOff off_;
  size_t effects_, nodes_;
};

/// True for immutable objects that compare by value or are unique.
bool is_immutable(PyObject* object) {
  const Owned<> told = imported("gramme._wrappers", "is_immutable");
  return take(PyObject_CallOneArg(told.get(), object)).get() == Py_True;
}

/// The field names of a data class's instance that compares by its fields only; null for others.
Owned<> fields_of(PyObject* object) {
  const Owned<> fields = imported("gramme._wrappers", "fields");
  Owned<> names = take(PyObject_CallOneArg(fields.get(), object));
  return names.get() == Py_None ? Owned<>() : std::move(names);
}

Owned<> real_of(Trace& trace, Value* value, PyTypeObject* type);

/// The real object for an instance that the program made, of a data class that compares by its fields only; null for
/// others.
Owned<> real_of_made(Trace& trace, Object* object, PyTypeObject* type) {
  if (object->existing() || trace.is_made(object->type)) return {};
  const Owned<> compared = imported("gramme._wrappers", "compared");
  const Owned<> names = take(PyObject_CallOneArg(compared.get(), reinterpret_cast<PyObject*>(object->type)));
  if (names.get() == Py_None) return {};
  if (object->payload) return {};
  return trace::made_instance(object->type, trace.all_attributes(object), [&](const Attribute& each) {
    return check(PySequence_Contains(names.get(), each.name)) ? real_of(trace, each.value, type) : Owned<>();
  });
}

/// True for the part of a DTensor's context that repeats its sizes. __tensor_unflatten__ ignores them and takes those
/// that it is given.
bool tells_sizes(const Tuple* tuple) {
  PyObject* const meta = of_torch::if_loaded(of_torch::DtensorMeta);
  return meta && tuple && reinterpret_cast<PyObject*>(tuple->type) == meta;
}

Owned<> items_of(Trace& trace, const std::vector<Value*>& values, PyTypeObject* type) {
  Owned<> items = take(PyList_New(0));
  for (Value* item : values) check(PyList_Append(items.get(), real_of(trace, item, type).get()));
  return items;
}

/// The real object of a value, guarded by identity or equality.
Owned<> real_of(Trace& trace, Value* value, PyTypeObject* type) {
  value = trace.see(value);
  auto* tuple = as<Tuple>(value);
  if (tells_sizes(tuple)) {
    const Owned<> sizeless = imported("gramme._wrappers", "sizeless");
    return take(PyObject_CallOneArg(sizeless.get(), real_of(trace, tuple->items.at(2), type).get()));
  }
  if (tuple && std::ranges::any_of(tuple->items, [&](Value* item) { return tells_sizes(as<Tuple>(trace.see(item))); }))
    return trace::made_tuple(tuple->type, take(PyList_AsTuple(items_of(trace, tuple->items, type).get())));
  if (Owned<> constant = trace.concrete(value)) return constant;
  if (auto* number = as<Number>(value))
    if (PyObject* known = trace.scope().specialize(number)) return share(known);
  if (tuple || value->kind == Kind::List) {
    Owned<> items = items_of(trace, tuple ? tuple->items : protocol::items_of(trace, value), type);
    return tuple ? trace::made_tuple(tuple->type, take(PyList_AsTuple(items.get()))) : std::move(items);
  }
  if (auto* dict = as<Dict>(value)) {
    trace.load(dict);
    Owned<> made = take(PyDict_New());
    dict->entries.each([&](Table::Entry& entry) {
      const Owned<> key = real_of(trace, entry.key, type), held = real_of(trace, entry.value, type);
      check(PyDict_SetItem(made.get(), key.get(), held.get()));
    });
    return made;
  }
  if (Owned<> fields = value->existing() && value->object ? fields_of(value->object) : Owned<>()) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fields.get()); ++i)
      real_of(trace, protocol::get_attribute(trace, value, PyTuple_GET_ITEM(fields.get(), i)), type);
    return take(PyObject_CallOneArg(imported("copy", "deepcopy").get(), value->object));
  }
  if (auto* object = as<Object>(value))
    if (Owned<> made = real_of_made(trace, object, type)) return made;
  if (value->existing() && value->object && !value->written && is_immutable(value->object)) {
    if (value->source->kind != source::Kind::Pinned)
      trace.facts.add({value->source, guards::Kind::Identity, share(value->object)});
    return share(value->object);
  }
  cannot(Reason::TensorSubclass, std::string("the context of a ") + type->tp_name + ", which has a " +
                                     protocol::type_of(value)->tp_name + " in it");
}

/// The record. In captures that are not run (export), its sizes become constants.
const meta::Record* fixed(Trace& trace, const meta::Record* record) {
  if (!record->symbolic || trace.contract.runs) return record;
  meta::mapped(record, [&](shape::SymInt number) {
    trace.fixed(number);
    return number;
  });
  return trace.shapes.simplified(record);
}

void open(Trace& trace, Tensor* wrapper);

/// What a wrapper holds under the names that it tells.
struct Inside {
  std::vector<PyObject*> names;  // of the tensors
  std::vector<Tensor*> tensors;
  Owned<> others;  // a list of names and other objects, which are guarded by identity
};

Inside inside_of(Trace& trace, Tensor* wrapper, const std::vector<PyObject*>& names) {
  Inside found{{}, {}, take(PyList_New(0))};
  for (PyObject* name : names) {
    Value* part = trace.see(protocol::get_attribute(trace, wrapper, name));
    if (auto* object = as<Object>(part); object && object->existing()) {
      trace.facts.add({object->source, guards::Kind::Identity, share(object->object)});
      check(PyList_Append(found.others.get(), take(PyTuple_Pack(2, name, object->object)).get()));
      continue;
    }
    auto* inner = as<Tensor>(part);
    if (!inner || !inner->existing()) cannot(Reason::TensorSubclass, "an inner tensor that the program has stored");
    if (!aten::is_exact_tensor_type(inner->record->type)) open(trace, inner);
    if (!meta::is_strided(*inner->record)) cannot(Reason::TensorSubclass, "an inner tensor without strides");
    inner->record = fixed(trace, inner->record);
    found.names.push_back(name);
    found.tensors.push_back(inner);
  }
  return found;
}

/// Makes the sizes of a dimension one symbol if they vary in both tensors and are equal now; that is guarded.
void relate(Trace& trace, const meta::Record& wrapper, const meta::Record& inner) {
  if (wrapper.sizes.size() != inner.sizes.size()) return;
  for (size_t d = 0; d < inner.sizes.size(); ++d) {
    const shape::SymInt outer = wrapper.sizes[d], own = inner.sizes[d];
    if (outer.is_number() || own.is_number() || outer == own) continue;
    if (trace.shapes.assumptions.hint(outer.expr()) != trace.shapes.assumptions.hint(own.expr())) continue;
    if (const shape::Expr equal = shape::equal(outer.expr(), own.expr())) trace.shapes.learn(equal, trace.position());
  }
}

std::vector<PyObject*> names_in(Trace& trace, Value* list) {
  std::vector<PyObject*> names;
  for (Value* item : protocol::items_of(trace, list)) {
    PyObject* name = trace.constant_of(item);
    if (!name || !PyUnicode_Check(name)) cannot(Reason::TensorSubclass, "names of inner tensors that are no constants");
    names.push_back(name);
  }
  return names;
}

/// Numbers a jagged tensor's ragged size: the offsets or lengths that it goes with get the number.
void number_ragged(PyObject* names, const std::vector<Tensor*>& inner) {
  const int place = meta::ragged_part(names);
  if (place < 0) cannot(Reason::TensorSubclass, "a jagged tensor without offsets");
  Tensor* source = inner.at(static_cast<size_t>(place));
  if (!source->record->ragged) source->record = meta::with_ragged(source->record, meta::new_ragged());
}

void look(Trace& trace, Tensor* wrapper) {
  static PyObject *const flatten = intern("__tensor_flatten__"), *const dispatch = intern("__torch_dispatch__"),
                         *const unflatten = intern("__tensor_unflatten__");
  PyTypeObject* type = wrapper->record->type;
  for (PyObject* name : {flatten, dispatch, unflatten}) trace.type_lookup(type, name);  // guarded
  const Looking looking(trace);
  auto* both = as<Tuple>(trace.see(protocol::call_method(trace, wrapper, flatten, {})));
  if (!both || both->items.size() != 2) cannot(Reason::TensorSubclass, "no pair of names and a context");
  const std::vector<PyObject*> names = names_in(trace, both->items[0]);
  Owned<> context = real_of(trace, both->items[1], type);
  const Inside inside = inside_of(trace, wrapper, names);
  looking.check(type);
  if (PyList_GET_SIZE(inside.others.get())) {
    const Owned<> add = imported("gramme._wrappers", "with_others");
    context = take(PyObject_CallFunctionObjArgs(add.get(), context.get(), inside.others.get(), nullptr));
  }
  for (const Tensor* each : inside.tensors) relate(trace, *wrapper->record, *each->record);
  for (Tensor* each : inside.tensors) each->record = trace.shapes.simplified(each->record);
  wrapper->record = trace.shapes.simplified(wrapper->record);
  const Owned<> canonical = meta::wrapper_context(inside.names, context.get());
  if (wrapper->record->opaque) number_ragged(PyTuple_GET_ITEM(canonical.get(), 0), inside.tensors);
  std::vector<const meta::Record*> parts;
  std::vector<trace::Wrappers::Part>& known = trace.scope().state<trace::Wrappers>().parts[wrapper];
  known.clear();
  for (Tensor* each : inside.tensors) {
    parts.push_back(each->record);
    known.push_back({each});
  }
  wrapper->record = meta::with_parts(fixed(trace, wrapper->record), std::move(parts), canonical.get());
  if (wrapper->node) wrapper->node->record = wrapper->record;
}

/// Finds the inner tensors; if that cannot be traced, ends the segment with the class's name.
void open(Trace& trace, Tensor* wrapper) {
  if (wrapper->record->context) return;
  const std::string name = wrapper->record->type->tp_name;
  if (!wrapper->existing() || !meta::is_wrapper(wrapper->record->type))
    cannot(Reason::TensorSubclass, "a wrapper of a " + name);
  if (!meta::is_traceable(wrapper->record->type))
    cannot(Reason::TensorSubclass, name + " has a __torch_dispatch__ and no __tensor_flatten__");
  trace.enter_opaque();
  try {
    look(trace, wrapper);
  } catch (const CannotCapture& stopped) {
    if (stopped.reason == Reason::Budget || stopped.reason == Reason::TooDeep) throw;
    cannot(Reason::TensorSubclass,
           name + ".__tensor_flatten__: " + (stopped.detail.empty() ? stopped.what() : stopped.detail));
  } catch (const UserError&) {
    cannot(Reason::TensorSubclass, name + ".__tensor_flatten__, which raises");
  }
}

/// The call of a wrapper class; null for other classes.
Value* make(Trace& trace, Class* cls, const Args& args) {
  static PyObject *const maker = intern("__new__"), *const init = intern("__init__"),
                         *const finalizer = intern("__del__");
  PyTypeObject* type = cls->type();
  if (!cls->existing() || trace.is_made(type) || !PyType_IsSubtype(type, of_torch::type(of_torch::TensorBase)) ||
      !meta::is_traceable(type))
    return nullptr;
  PyObject* own = trace.type_lookup(type, maker);
  if (!own || !Py_IS_TYPE(own, &PyStaticMethod_Type)) return nullptr;
  trace.type_lookup(type, init);
  if (trace.type_lookup(type, finalizer)) cannot(Reason::TensorSubclass, std::string(type->tp_name) + " has a __del__");
  const trace::HandlersOff off(trace.scope().modes());
  return trace.emit(cls->object, args);
}

/// True for a class whose inner tensor is another wrapper where the graph runs: the result of a collective that may
/// still run beside the program. In the capture it is a plain tensor.
bool may_wait(const Tensor* wrapper) {
  PyObject* const dtensor = of_torch::if_loaded(of_torch::Dtensor);
  return dtensor && PyType_IsSubtype(wrapper->record->type, reinterpret_cast<PyTypeObject*>(dtensor));
}

}  // namespace

PyObject* likeness_of(Trace& trace, const Tensor* wrapper) {
  const auto& likenesses = trace.scope().state<trace::Wrappers>().likenesses;
  const auto found = likenesses.find(wrapper);
  return found == likenesses.end() ? nullptr : found->second;
}

Value* wrapper_attribute(Trace& trace, Tensor* wrapper, PyObject* member, PyObject* name) {
  PyObject* names = meta::part_names(*wrapper->record);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    if (!check(PyObject_RichCompareBool(PyTuple_GET_ITEM(names, i), name, Py_EQ))) continue;
    if (trace.contract.as_is && may_wait(wrapper))
      cannot(Reason::AttributeUnknown, "the local tensor of a DTensor that an operation made");
    return trace.scope().part(wrapper, static_cast<size_t>(i));
  }
  PyObject* const likeness = likeness_of(trace, wrapper);
  if (!likeness) cannot(Reason::AttributeUnknown, "an attribute of a wrapped tensor's wrapper");
  PyObject* found = nullptr;
  if (member) {
    const Py_ssize_t offset = cpython::slot_offset(member, wrapper->record->type);
    if (offset < 0) cannot(Reason::AttributeUnknown, "a member of a wrapper");
    found = *cpython::slot_address(likeness, offset);
  } else if (cpython::instance_attribute(likeness, name, &found) == cpython::Lookup::NeedsPython) {
    cannot(Reason::AttributeUnknown, "an instance dict with keys of a user's class");
  }
  if (!found) return nullptr;
  if (!source::is_constant(found) && !is_immutable(found))
    cannot(Reason::AttributeUnknown, std::string("the attribute ") + utf8_of(name) + " of a " +
                                         wrapper->record->type->tp_name + " that an operation made");
  return trace.see(trace.adopt(share(found)));
}

void register_torch_wrappers() {
  trace::set_open_wrapper(&open);
  protocol::set_wrapper_maker(&make);
}

}  // namespace gramme::builtins
