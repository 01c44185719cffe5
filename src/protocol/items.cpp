// Subscripts and lengths.
#include "base/once.h"
#include "protocol/number.h"
#include "protocol/operator_table.h"
#include "protocol/slices.h"
#include "protocol/special.h"
#include "protocol/subscript.h"
#include "protocol/tensors.h"

namespace gramme::protocol {

using namespace value;

namespace {

// ---- sequences

const char* sequence_name(Value* seen) {
  return seen->kind == Kind::List ? "list" : seen->kind == Kind::Tuple ? "tuple" : "deque";
}

std::vector<Value*>& sequence_items(Value* seen) {
  if (auto* list = as<List>(seen)) return list->items();
  if (auto* tuple = as<Tuple>(seen)) return tuple->items;
  return static_cast<Deque*>(seen)->items;
}

/// A position in the sequence from a key that is no slice; `text` is the IndexError's, after the type's name.
size_t position(Trace& trace, Value* sequence, Value* key, const char* text) {
  if (!has_index(trace, key)) {
    if (sequence->kind == Kind::Deque)
      raise_about(trace, PyExc_TypeError, "sequence index must be integer, not '{}'", key);
    raise_about(trace, PyExc_TypeError,
                std::string(sequence_name(sequence)) + " indices must be integers or slices, not {}", key);
  }
  Py_ssize_t at = index(trace, key), size = static_cast<Py_ssize_t>(sequence_items(sequence).size());
  if (at < 0) at += size;
  if (at < 0 || at >= size) raise(trace, PyExc_IndexError, std::string(sequence_name(sequence)) + text);
  return static_cast<size_t>(at);
}

Value* sequence_item(Trace& trace, Value* sequence, Value* key) {
  auto* slice = as<Slice>(key);
  if (slice && sequence->kind != Kind::Deque) return get_slice(trace, sequence, slice);
  size_t at = position(trace, sequence, key, " index out of range");
  return sequence_items(sequence)[at];
}

const char* assignment_text(Value* sequence) {
  return sequence->kind == Kind::List ? " assignment index out of range" : " index out of range";
}

void set_sequence_item(Trace& trace, Value* sequence, Value* key, Value* value) {
  auto* slice = as<Slice>(key);
  if (slice && sequence->kind == Kind::List) return set_slice(trace, static_cast<List*>(sequence), slice, value);
  size_t at = position(trace, sequence, key, assignment_text(sequence));
  trace.will_store_item(sequence);
  sequence_items(sequence)[at] = value;
}

void delete_sequence_item(Trace& trace, Value* sequence, Value* key) {
  auto* slice = as<Slice>(key);
  if (slice && sequence->kind == Kind::List) return delete_slice(trace, static_cast<List*>(sequence), slice);
  size_t at = position(trace, sequence, key, assignment_text(sequence));
  trace.will_change(sequence);
  auto& items = sequence_items(sequence);
  items.erase(items.begin() + static_cast<Py_ssize_t>(at));
}

Value* constant_item(Trace& trace, Value* constant, Value* key) {
  if (!PyMapping_Check(constant->object) && !PySequence_Check(constant->object))
    raise_about(trace, PyExc_TypeError, "'{}' object is not subscriptable", constant);
  key = known(trace, key);
  if (Value* part = builtin_part(key); part->kind == Kind::Constant) key = part;
  auto* slice = as<Slice>(key);
  Owned<> real = slice ? real_slice(trace, slice) : trace.concrete(key);
  if (!real && key->kind == Kind::Object && has_index(trace, key)) real = take(PyLong_FromSsize_t(index(trace, key)));
  if (!real && key->kind == Kind::Tensor) cannot(Reason::DataDependentValue, "a tensor as an index");
  if (!real) cannot(Reason::ArgumentKind, "a subscript of " + type_name(constant));
  return folded(trace, PyObject_GetItem(constant->object, real.get()));
}

// ---- mappings

[[noreturn]] void missing(Trace& trace, Value* key) {
  raise(trace, static_cast<Value*>(make_exception(trace, reinterpret_cast<PyTypeObject*>(PyExc_KeyError), {key})));
}

Value* dict_item(Trace& trace, Dict* dict, Value* key) {
  Value* hashed = key_in(trace, dict, key);
  if (Value* found = trace.dict_get(dict, hashed)) return found;
  Value* factory = dict->factory ? trace.see(dict->factory) : nullptr;
  if (!factory || is_constant_of(factory, Py_TYPE(Py_None))) missing(trace, key);
  Value* made = call(trace, factory, {});
  trace.dict_set(dict, hashed, made);
  return made;
}

Value* named_item(Trace& trace, Value* mapping, PyObject* name) {
  if (auto* names = as<Namespace>(mapping)) return trace.global(names, name);
  return trace.own_attribute(static_cast<InstanceDict*>(mapping)->owner, name);
}

void store_named_item(Trace& trace, Value* mapping, PyObject* name, Value* value) {
  if (auto* names = as<Namespace>(mapping)) return trace.store_global(names, name, value);
  trace.store_own_attribute(static_cast<InstanceDict*>(mapping)->owner, name, value);
}

// ---- tensors

/// A key as it stands in a graph: objects that are indices become ints.
Value* tensor_key(Trace& trace, Value* key) {
  key = builtin_part(trace.see(key));
  if (auto* tuple = as<Tuple>(key)) {
    std::vector<Value*> items;
    for (Value* item : tuple->items) items.push_back(tensor_key(trace, item));
    return trace.tuple(std::move(items));
  }
  if (auto* slice = as<Slice>(key)) {
    for (Value* bound : {slice->start, slice->stop, slice->step})
      if (bound && trace.see(bound)->kind == Kind::Tensor)
        cannot(Reason::DataDependentValue, "a tensor as the bound of a slice");
    bool objects = false;
    for (Value* bound : {slice->start, slice->stop, slice->step})
      objects |= bound && trace.see(bound)->kind == Kind::Object;
    return objects ? trace.adopt(real_slice(trace, slice)) : key;
  }
  return key->kind == Kind::Object && has_index(trace, key) ? trace.integer(index(trace, key)) : key;
}

Value* tensor_item(Trace& trace, Tensor* tensor, Value* key) {
  PyObject* const getitem = once([] { return operator_function("getitem"); });
  static PyObject* const name = intern("__getitem__");
  refuse_replaced(trace, {tensor}, {name});
  return trace.emit(getitem, {tensor, tensor_key(trace, key)});
}

void set_tensor_item(Trace& trace, Tensor* tensor, Value* key, Value* value) {
  PyObject* const setitem = once([] { return operator_function("setitem"); });
  static PyObject* const name = intern("__setitem__");
  refuse_replaced(trace, {tensor}, {name});
  trace.emit(setitem, {tensor, tensor_key(trace, key), builtin_part(trace.see(value))});
}

// ---- objects of the program's classes

Value* object_item(Trace& trace, Value* object, Value* key) {
  static PyObject* const getitem_name = intern("__getitem__");
  static PyObject* const missing_name = intern("__missing__");
  if (Value* payload = payload_for(trace, object, getitem_name)) {
    auto* dict = as<Dict>(payload);
    Value* handler = dict ? own_method(trace, object, missing_name) : nullptr;
    if (!handler) return get_item(trace, payload, key);
    Value* found = trace.dict_get(dict, table_key(trace, key));
    return found ? found : call(trace, handler, {key});
  }
  if (Value* result = typing_item(trace, object, key)) return result;
  if (Value* method = own_method(trace, object, getitem_name)) return call(trace, method, {key});
  if (auto* tuple = as<Tuple>(object)) return sequence_item(trace, tuple, trace.see(key));
  if (auto* cls = as<Class>(object)) return class_item(trace, cls, key);
  raise_about(trace, PyExc_TypeError, "'{}' object is not subscriptable", object);
}

/// Types with sequence slots look at the key before they refuse.
bool refuses_by_index(Trace& trace, Value* object, Value* key) {
  if (!type_of(object)->tp_as_sequence || !has_index(trace, key)) return false;
  index(trace, key);
  return true;
}

[[noreturn]] void no_deletion(Trace& trace, Value* object, Value* key) {
  bool sequence = refuses_by_index(trace, object, key);
  raise_about(trace, PyExc_TypeError,
              sequence ? "'{}' object doesn't support item deletion" : "'{}' object does not support item deletion",
              object);
}

}  // namespace

Value* get_item(Trace& trace, Value* object, Value* key) {
  object = trace.see(object);
  key = trace.see(key);
  if (has_own_class(object)) return object_item(trace, object, key);
  switch (object->kind) {
    case Kind::Tuple:
    case Kind::List:
    case Kind::Deque:
      return sequence_item(trace, object, key);
    case Kind::Dict:
      return dict_item(trace, static_cast<Dict*>(object), key);
    case Kind::Constant:
      return constant_item(trace, object, key);
    case Kind::Tensor:
      return tensor_item(trace, static_cast<Tensor*>(object), key);
    case Kind::Class:
      return class_item(trace, static_cast<Class*>(object), key);
    case Kind::InstanceDict:
    case Kind::Namespace: {
      PyObject* name = name_key(trace, key);
      Value* found = name ? named_item(trace, object, name) : nullptr;
      if (!found) missing(trace, key);
      return found;
    }
    case Kind::Lazy:
    case Kind::Number:
    case Kind::Set:
    case Kind::Slice:
    case Kind::View:
    case Kind::Iterator:
    case Kind::Generator:
    case Kind::Function:
    case Kind::Cell:
    case Kind::Method:
    case Kind::Builtin:
    case Kind::BuiltinMethod:
    case Kind::Module:
    case Kind::Object:
    case Kind::Partial:
    case Kind::Super:
    case Kind::Null:
      raise_about(trace, PyExc_TypeError, "'{}' object is not subscriptable", object);
  }
  GRAMME_BUG("a value of no kind");
}

void set_item(Trace& trace, Value* object, Value* key, Value* value) {
  static PyObject* const setitem_name = intern("__setitem__");
  object = trace.see(object);
  key = trace.see(key);
  if (has_own_class(object)) {
    if (Value* payload = payload_for(trace, object, setitem_name)) return set_item(trace, payload, key, value);
    if (Value* method = own_method(trace, object, setitem_name)) return void(call(trace, method, {key, value}));
  }
  switch (object->kind) {
    case Kind::List:
    case Kind::Deque:
      return set_sequence_item(trace, object, key, value);
    case Kind::Dict:
      return trace.dict_set(static_cast<Dict*>(object), key_in(trace, static_cast<Dict*>(object), key), value);
    case Kind::Tensor:
      return set_tensor_item(trace, static_cast<Tensor*>(object), key, value);
    case Kind::InstanceDict:
    case Kind::Namespace: {
      PyObject* name = name_key(trace, key);
      if (!name) cannot(Reason::MutationUnsupported, "a key that is no str in a __dict__");
      return store_named_item(trace, object, name, value);
    }
    case Kind::Lazy:
    case Kind::Constant:
    case Kind::Number:
    case Kind::Tuple:
    case Kind::Set:
    case Kind::Slice:
    case Kind::View:
    case Kind::Iterator:
    case Kind::Generator:
    case Kind::Function:
    case Kind::Cell:
    case Kind::Method:
    case Kind::Builtin:
    case Kind::BuiltinMethod:
    case Kind::Class:
    case Kind::Module:
    case Kind::Object:
    case Kind::Partial:
    case Kind::Super:
    case Kind::Null:
      refuses_by_index(trace, object, key);
      raise_about(trace, PyExc_TypeError, "'{}' object does not support item assignment", object);
  }
}

void delete_item(Trace& trace, Value* object, Value* key) {
  static PyObject* const delitem_name = intern("__delitem__");
  object = trace.see(object);
  key = trace.see(key);
  if (has_own_class(object)) {
    if (Value* payload = payload_for(trace, object, delitem_name)) return delete_item(trace, payload, key);
    if (Value* method = own_method(trace, object, delitem_name)) return void(call(trace, method, {key}));
  }
  switch (object->kind) {
    case Kind::List:
    case Kind::Deque:
      return delete_sequence_item(trace, object, key);
    case Kind::Dict:
      if (!trace.dict_erase(static_cast<Dict*>(object), key_in(trace, static_cast<Dict*>(object), key)))
        missing(trace, key);
      return;
    case Kind::Tensor:
      raise(trace, PyExc_TypeError, "Tensor does not support deleting items");
    case Kind::InstanceDict:
    case Kind::Namespace: {
      PyObject* name = name_key(trace, key);
      if (!name || !named_item(trace, object, name)) missing(trace, key);
      return store_named_item(trace, object, name, nullptr);
    }
    case Kind::Lazy:
    case Kind::Constant:
    case Kind::Number:
    case Kind::Tuple:
    case Kind::Set:
    case Kind::Slice:
    case Kind::View:
    case Kind::Iterator:
    case Kind::Generator:
    case Kind::Function:
    case Kind::Cell:
    case Kind::Method:
    case Kind::Builtin:
    case Kind::BuiltinMethod:
    case Kind::Class:
    case Kind::Module:
    case Kind::Object:
    case Kind::Partial:
    case Kind::Super:
    case Kind::Null:
      no_deletion(trace, object, key);
  }
}

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
  Value* result = builtin_part(known(trace, trace.see(call(trace, method, {}))));
  if (!is_int(result)) raise_about(trace, PyExc_TypeError, "__index__ returned non-int (type {})", result);
  return index(trace, result);
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
  Value* result = known(trace, trace.see(call(trace, method, {})));
  Py_ssize_t size = index(trace, result);
  if (size < 0) raise(trace, PyExc_ValueError, "__len__() should return >= 0");
  return size;
}

Py_ssize_t constant_length(Trace& trace, Value* constant) {
  Py_ssize_t size = PyObject_Size(constant->object);
  if (size < 0) raise_current(trace);
  return size;
}

Py_ssize_t tensor_length(Trace& trace, Tensor* tensor) {
  static PyObject* const name = intern("__len__");
  static PyObject* const dim_name = intern("dim");
  static PyObject* const shape_name = intern("shape");
  refuse_replaced(trace, {tensor}, {name, dim_name, shape_name});
  refuse_subclass(tensor, "len()");
  if (!trace.scope().function_modes().empty()) cannot(Reason::CallUnknown, "len() that a torch function mode sees");
  if (tensor->record->dim() == 0) raise(trace, PyExc_TypeError, "len() of a 0-d tensor");
  return static_cast<Py_ssize_t>(tensor->record->sizes[0]);
}

}  // namespace

Py_ssize_t length(Trace& trace, Value* object) {
  object = trace.see(object);
  if (has_own_class(object)) return object_length(trace, object);
  switch (object->kind) {
    case Kind::Tuple:
    case Kind::List:
    case Kind::Deque:
      return static_cast<Py_ssize_t>(sequence_items(object).size());
    case Kind::Dict:
      return static_cast<Py_ssize_t>(trace.dict_size(static_cast<Dict*>(object)));
    case Kind::Set:
      return static_cast<Py_ssize_t>(static_cast<Set*>(object)->entries.size());
    case Kind::View:
      return length(trace, static_cast<View*>(object)->dict);
    case Kind::InstanceDict:
      return static_cast<Py_ssize_t>(trace.all_attributes(static_cast<InstanceDict*>(object)->owner).size());
    case Kind::Constant:
      return constant_length(trace, object);
    case Kind::Tensor:
      return tensor_length(trace, static_cast<Tensor*>(object));
    case Kind::Namespace:
      cannot(Reason::ArgumentKind, "len(globals())");
    case Kind::Lazy:
    case Kind::Number:
    case Kind::Slice:
    case Kind::Iterator:
    case Kind::Generator:
    case Kind::Function:
    case Kind::Cell:
    case Kind::Method:
    case Kind::Builtin:
    case Kind::BuiltinMethod:
    case Kind::Class:
    case Kind::Module:
    case Kind::Object:
    case Kind::Partial:
    case Kind::Super:
    case Kind::Null:
      raise_about(trace, PyExc_TypeError, "object of type '{}' has no len()", object);
  }
  GRAMME_BUG("a value of no kind");
}

}  // namespace gramme::protocol
