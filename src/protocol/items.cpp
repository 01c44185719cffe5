// Subscripts: x[k], x[k] = v, del x[k].
#include <concepts>

#include "aten/classes.h"
#include "base/imported.h"
#include "base/once.h"
#include "meta/silence.h"
#include "protocol/array_keys.h"
#include "protocol/keys.h"
#include "protocol/number.h"
#include "protocol/operator_table.h"
#include "protocol/slices.h"
#include "protocol/special.h"
#include "protocol/subscript.h"
#include "protocol/tensors.h"
#include "protocol/warned.h"
#include "value/traits.h"

namespace gramme::protocol {

using namespace value;

namespace {

// ---- sequences

template <class T>
concept Sequence = std::same_as<T, Tuple> || std::same_as<T, List> || std::same_as<T, Deque>;

const char* sequence_name(Value* seen) {
  return seen->kind == Kind::List ? "list" : seen->kind == Kind::Tuple ? "tuple" : "deque";
}

std::vector<Value*>& sequence_items(Value* seen) {
  if (auto* list = as<List>(seen)) return list->items();
  if (auto* tuple = as<Tuple>(seen)) return tuple->items;
  return static_cast<Deque*>(seen)->items;
}

/// The position for a key that is no slice; `text` follows the type's name in the IndexError.
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

/// An item counted from the end of a list whose length is not guarded; null if the length must be.
Value* from_end(Trace& trace, List* list, Value* key) {
  if (!list->unread || key->kind != Kind::Constant || !PyLong_CheckExact(key->object)) return nullptr;
  int overflow = 0;
  const int64_t at = PyLong_AsLongLongAndOverflow(key->object, &overflow);
  return at < 0 && !overflow ? trace.item_from_end(list, static_cast<size_t>(-at)) : nullptr;
}

template <Sequence T>
Value* item_of(Trace& trace, T* sequence, Value* key) {
  auto* slice = as<Slice>(key);
  if (slice && sequence->kind != Kind::Deque) return get_slice(trace, sequence, slice);
  if constexpr (std::same_as<T, List>)
    if (Value* item = from_end(trace, sequence, key)) return item;
  size_t at = position(trace, sequence, key, " index out of range");
  return sequence_items(sequence)[at];
}

const char* assignment_text(Value* sequence) {
  return sequence->kind == Kind::List ? " assignment index out of range" : " index out of range";
}

template <Sequence T>
void store_item(Trace& trace, T* sequence, Value* key, Value* value) {
  auto* slice = as<Slice>(key);
  if (auto* list = as<List>(sequence); list && slice) return set_slice(trace, list, slice, value);
  size_t at = position(trace, sequence, key, assignment_text(sequence));
  trace.will_store_item(sequence);
  sequence_items(sequence)[at] = value;
}

template <Sequence T>
void remove_item(Trace& trace, T* sequence, Value* key) {
  auto* slice = as<Slice>(key);
  if (auto* list = as<List>(sequence); list && slice) return delete_slice(trace, list, slice);
  size_t at = position(trace, sequence, key, assignment_text(sequence));
  trace.will_change(sequence);
  auto& items = sequence_items(sequence);
  items.erase(items.begin() + static_cast<Py_ssize_t>(at));
}

// ---- constants

Value* item_of(Trace& trace, Constant* constant, Value* key) {
  if (!PyMapping_Check(constant->object) && !PySequence_Check(constant->object))
    raise_about(trace, PyExc_TypeError, "'{}' object is not subscriptable", constant);
  key = known(trace, key);
  Value* part = builtin_part(key);
  const bool stands_in = part != key && part->kind == Kind::Constant;
  if (stands_in) key = part;
  auto* slice = as<Slice>(key);
  Owned<> real = slice ? real_slice(trace, slice) : trace.concrete(key);
  if (!real && key->kind == Kind::Object && has_index(trace, key)) real = take(PyLong_FromSsize_t(index(trace, key)));
  if (!real && key->kind == Kind::Tensor) cannot(Reason::DataDependentValue, "a tensor as an index");
  if (!real) cannot(Reason::ArgumentKind, "a subscript of " + type_name(constant));
  return on_parts(trace, stands_in, [&] { return folded(trace, PyObject_GetItem(constant->object, real.get())); });
}

// ---- mappings

[[noreturn]] void missing(Trace& trace, Value* key) {
  raise(trace, static_cast<Value*>(make_exception(trace, reinterpret_cast<PyTypeObject*>(PyExc_KeyError), {key})));
}

Value* item_of(Trace& trace, Dict* dict, Value* key) {
  Value* hashed = key_in(trace, dict, key);
  if (Value* found = trace.dict_get(dict, hashed)) return found;
  Value* factory = dict->factory ? trace.see(dict->factory) : nullptr;
  if (!factory || is_constant_of(factory, Py_TYPE(Py_None))) missing(trace, key);
  Value* made = call(trace, factory, {});
  trace.dict_set(dict, hashed, made);
  return made;
}

void store_item(Trace& trace, Dict* dict, Value* key, Value* value) {
  trace.dict_set(dict, key_in(trace, dict, key), value);
}

void remove_item(Trace& trace, Dict* dict, Value* key) {
  if (!trace.dict_erase(dict, key_in(trace, dict, key))) missing(trace, key);
}

// ---- globals and the attributes of an instance, by name

template <class T>
concept Names = std::same_as<T, Namespace> || std::same_as<T, InstanceDict>;

Value* named(Trace& trace, Namespace* names, PyObject* name) { return trace.global(names, name); }
Value* named(Trace& trace, InstanceDict* names, PyObject* name) { return trace.own_attribute(names->owner, name); }

void store_named(Trace& trace, Namespace* names, PyObject* name, Value* value) {
  trace.store_global(names, name, value);
}
void store_named(Trace& trace, InstanceDict* names, PyObject* name, Value* value) {
  trace.store_own_attribute(names->owner, name, value);
}

template <Names T>
Value* item_of(Trace& trace, T* names, Value* key) {
  PyObject* name = name_key(trace, key);
  Value* found = name ? named(trace, names, name) : nullptr;
  if (!found) missing(trace, key);
  return found;
}

template <Names T>
void store_item(Trace& trace, T* names, Value* key, Value* value) {
  PyObject* name = name_key(trace, key);
  if (!name) cannot(Reason::MutationUnsupported, "a key that is not a str in a __dict__");
  store_named(trace, names, name, value);
}

template <Names T>
void remove_item(Trace& trace, T* names, Value* key) {
  PyObject* name = name_key(trace, key);
  if (!name || !named(trace, names, name)) missing(trace, key);
  store_named(trace, names, name, nullptr);
}

// ---- tensors

/// Converts tensors among the bounds to ints.
Value* slice_by_items(Trace& trace, Slice* slice) {
  auto* made = trace.make<Slice>();
  auto bound = [&](Value* value) {
    auto* tensor = value ? trace.see_as<Tensor>(value) : nullptr;
    return tensor ? item(trace, tensor, "a tensor as the bound of a slice") : value;
  };
  made->start = bound(slice->start);
  made->stop = bound(slice->stop);
  made->step = bound(slice->step);
  return made;
}

/// The key as a graph argument: objects with __index__ become ints, arrays become tensors.
Value* tensor_key(Trace& trace, const Tensor* indexed, Value* key) {
  key = builtin_part(trace.see(key));
  if (auto* tuple = as<Tuple>(key)) {
    std::vector<Value*> items;
    for (Value* item : tuple->items) items.push_back(tensor_key(trace, indexed, item));
    return trace.tuple(std::move(items));
  }
  if (auto* slice = as<Slice>(key)) {
    bool objects = false, tensors = false;
    for (Value* bound : {slice->start, slice->stop, slice->step}) {
      objects |= bound && trace.see(bound)->kind == Kind::Object;
      tensors |= bound && trace.see(bound)->kind == Kind::Tensor;
    }
    if (objects && tensors) cannot(Reason::DataDependentValue, "a tensor as the bound of a slice");
    if (tensors) return slice_by_items(trace, slice);
    return objects ? trace.adopt(real_slice(trace, slice)) : key;
  }
  if (key->kind != Kind::Object) return key;
  if (Value* laid_over = key_of_array(trace, indexed, key)) return laid_over;
  return has_index(trace, key) ? trace.integer(index(trace, key)) : key;
}

/// A list that PyTorch reads as a tuple of subscripts, with a warning: returns the tuple, and the warning becomes an
/// effect. Other keys, and lists whose form the program can observe, are returned unchanged.
Value* list_as_subscripts(Trace& trace, Tensor* tensor, Value* key) {
  constexpr size_t kTooMany = 32;
  auto* list = as<List>(key);
  if (!list || !aten::is_exact_tensor_type(tensor->record->type) || trace.scope().modes().in_function_mode())
    return key;
  if (list->items().size() >= kTooMany) return key;
  std::optional<bool> by_slice;  // whether a slice was the first item that decides it
  for (Value* item : list->items()) {
    Value* seen = trace.see(item);
    const bool slices = seen->kind == Kind::Slice || seen->kind == Kind::Tensor;
    const bool stands = seen->object == Py_None || seen->object == Py_Ellipsis;
    if (!slices && !stands && !is_int(seen)) return key;
    if (!by_slice && (slices || stands)) by_slice = slices;
  }
  PyObject* const text = by_slice ? meta::warning_of_list_as_subscript(*by_slice) : nullptr;
  auto* const category = reinterpret_cast<PyTypeObject*>(PyExc_UserWarning);
  return text && warn_at(trace, trace.inliner->call_site(0), text, category) ? trace.tuple(list->items()) : key;
}

Value* item_of(Trace& trace, Tensor* tensor, Value* key) {
  PyObject* const getitem = once([] { return operator_function("getitem"); });
  static PyObject* const name = intern("__getitem__");
  PyObject* const select = once([] { return imported("torch", "select").release(); });
  if (is_asked(trace, tensor))
    if (Value* result = call_by_name(trace, tensor, name, {key})) return result;
  refuse_replaced(trace, {tensor}, {name});
  key = tensor_key(trace, tensor, list_as_subscripts(trace, tensor, key));
  auto* number = as<Number>(key);  // indexing needs the number itself
  if (number && number->expr && number->type == &PyLong_Type && !tensor->record->sizes.empty())
    return trace.emit(select, {tensor, trace.integer(0), key});
  return trace.emit(getitem, {tensor, key});
}

void store_item(Trace& trace, Tensor* tensor, Value* key, Value* value) {
  PyObject* const setitem = once([] { return operator_function("setitem"); });
  static PyObject* const name = intern("__setitem__");
  if (is_asked(trace, tensor) || is_asked(trace, trace.see(value))) {
    call_by_name(trace, tensor, name, {key, value});
    return;
  }
  refuse_replaced(trace, {tensor}, {name});
  key = tensor_key(trace, tensor, list_as_subscripts(trace, tensor, key));
  trace.emit(setitem, {tensor, key, builtin_part(trace.see(value))});
}

void remove_item(Trace& trace, Tensor*, Value*) {
  raise(trace, PyExc_TypeError, "Tensor does not support deleting items");
}

// ---- objects of the program's classes

Value* object_item(Trace& trace, Value* object, Value* key) {
  static PyObject* const getitem_name = intern("__getitem__");
  static PyObject* const missing_name = intern("__missing__");
  if (Value* payload = payload_for(trace, object, getitem_name)) {
    auto* dict = as<Dict>(payload);
    Value* handler = dict ? special_method(trace, object, missing_name) : nullptr;
    if (!handler) return get_item(trace, payload, key);
    Value* found = trace.dict_get(dict, table_key(trace, key, key_of(dict)));
    return found ? found : call(trace, handler, {key});
  }
  if (Value* result = typing_item(trace, object, key)) return result;
  if (Value* method = own_method(trace, object, getitem_name)) return call(trace, method, {key});
  if (auto* tuple = as<Tuple>(object)) return item_of(trace, tuple, trace.see(key));
  if (auto* cls = as<Class>(object)) return class_item(trace, cls, key);
  raise_about(trace, PyExc_TypeError, "'{}' object is not subscriptable", object);
}

Value* item_of(Trace& trace, Class* cls, Value* key) { return class_item(trace, cls, key); }

/// True if the type has sequence slots, which convert the key before they refuse.
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
  if (!has(object->kind, ITEMS)) raise_about(trace, PyExc_TypeError, "'{}' object is not subscriptable", object);
  return as_kind<ITEMS>(object, [&](auto* held) { return item_of(trace, held, key); });
}

void set_item(Trace& trace, Value* object, Value* key, Value* value) {
  static PyObject* const setitem_name = intern("__setitem__");
  object = trace.see(object);
  key = trace.see(key);
  if (has_own_class(object)) {
    if (Value* payload = payload_for(trace, object, setitem_name)) return set_item(trace, payload, key, value);
    if (Value* method = own_method(trace, object, setitem_name)) return void(call(trace, method, {key, value}));
  }
  if (!has(object->kind, STORES)) {
    refuses_by_index(trace, object, key);
    raise_about(trace, PyExc_TypeError, "'{}' object does not support item assignment", object);
  }
  as_kind<STORES>(object, [&](auto* held) { store_item(trace, held, key, value); });
}

void delete_item(Trace& trace, Value* object, Value* key) {
  static PyObject* const delitem_name = intern("__delitem__");
  object = trace.see(object);
  key = trace.see(key);
  if (has_own_class(object)) {
    if (Value* payload = payload_for(trace, object, delitem_name)) return delete_item(trace, payload, key);
    if (Value* method = own_method(trace, object, delitem_name)) return void(call(trace, method, {key}));
  }
  if (!has(object->kind, STORES)) no_deletion(trace, object, key);
  as_kind<STORES>(object, [&](auto* held) { remove_item(trace, held, key); });
}

}  // namespace gramme::protocol
