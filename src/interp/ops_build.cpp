// Building, extending and unpacking containers; pattern matching.
#include <algorithm>

#include "base/text.h"
#include "interp/ops.h"
#include "protocol/keys.h"
#include "protocol/set_algebra.h"
#include "protocol/texts.h"

namespace gramme::interp {

using namespace value;

namespace {
std::vector<Value*> take_items(Frame& frame, int count) {
  std::vector<Value*> items(frame.stack.end() - count, frame.stack.end());
  frame.drop(count);
  return items;
}
}  // namespace

Step build_tuple(Interpreter& interp, Frame& frame, int count) {
  frame.push(interp.trace.tuple(take_items(frame, count)));
  return Step::Next;
}
Step build_list(Interpreter& interp, Frame& frame, int count) {
  frame.push(interp.trace.list(take_items(frame, count)));
  return Step::Next;
}
Step build_set(Interpreter& interp, Frame& frame, int count) {
  auto* set = interp.trace.make<Set>();
  for (Value* item : take_items(frame, count))
    trace::add_member(interp.trace, set, protocol::key_in(interp.trace, set->entries, item));
  frame.push(set);
  return Step::Next;
}
Step build_map(Interpreter& interp, Frame& frame, int count) {
  Dict* dict = interp.trace.dict();
  std::vector<Value*> items = take_items(frame, 2 * count);
  for (int i = 0; i < count; ++i)
    interp.trace.dict_set(dict, protocol::key_in(interp.trace, dict, items[2 * i]), items[2 * i + 1]);
  frame.push(dict);
  return Step::Next;
}
Step build_const_key_map(Interpreter& interp, Frame& frame, int count) {
  auto* keys = interp.trace.see_as<Tuple>(frame.pop());
  std::vector<Value*> items = take_items(frame, count);
  Dict* dict = interp.trace.dict();
  for (int i = 0; i < count; ++i) interp.trace.dict_set(dict, keys->items.at(i), items[i]);
  frame.push(dict);
  return Step::Next;
}
Step build_string(Interpreter& interp, Frame& frame, int count) {
  Owned<> joined = take(PyUnicode_FromString(""));
  for (Value* part : take_items(frame, count)) {
    PyObject* text = interp.trace.constant_of(part);
    if (!text || !PyUnicode_Check(text))
      cannot(Reason::ArgumentKind, "an f-string of a value that is known only at run time");
    joined = take(PyUnicode_Concat(joined.get(), text));
  }
  frame.push(interp.trace.constant(joined));
  return Step::Next;
}
Step build_slice(Interpreter& interp, Frame& frame, int count) {
  auto* slice = interp.trace.make<Slice>();
  slice->step = count == 3 ? frame.pop() : interp.trace.none();
  slice->stop = frame.pop();
  slice->start = frame.pop();
  frame.push(slice);
  return Step::Next;
}

namespace {
/// The conversions !s, !r and !a of f-strings.
Value* converted(trace::Trace& trace, int how, Value* value) {
  switch (how) {
    case 1:
      return protocol::to_str(trace, value);
    case 2:
      return protocol::to_repr(trace, value);
    case 3:
      cannot(Reason::OpcodeUnsupported, "!a in an f-string");
  }
  return value;
}
}  // namespace

Step convert_value(Interpreter& interp, Frame& frame, int how) {
  frame.peek(1) = converted(interp.trace, how, frame.peek(1));
  return Step::Next;
}

Step format_value(Interpreter& interp, Frame& frame, int flags) {
  Value* spec = flags & 4 ? frame.pop() : nullptr;
  Value* value = converted(interp.trace, flags & 3, frame.pop());
  frame.push(protocol::format(interp.trace, value, spec));
  return Step::Next;
}

// ---- displays under construction: existing objects where a segment starts in the middle of a comprehension

namespace {
template <class T>
T* growing(Interpreter& interp, Frame& frame, int depth) {
  auto* container = interp.trace.see_as<T>(frame.peek(depth));
  if (!container) GRAMME_BUG("a display of another kind");
  interp.trace.will_change(container);
  return container;
}
}  // namespace

Step list_append(Interpreter& interp, Frame& frame, int depth) {
  Value* item = frame.pop();
  growing<List>(interp, frame, depth)->own_items.push_back(item);
  return Step::Next;
}
Step set_add(Interpreter& interp, Frame& frame, int depth) {
  Value* item = protocol::table_key(interp.trace, frame.pop(), protocol::KeyOf::Set);
  trace::add_member(interp.trace, growing<Set>(interp, frame, depth), item);
  return Step::Next;
}
Step map_add(Interpreter& interp, Frame& frame, int depth) {
  Value* value = frame.pop();
  Value* key = frame.pop();
  auto* dict = interp.trace.see_as<Dict>(frame.peek(depth));
  interp.trace.dict_set(dict, protocol::table_key(interp.trace, key, protocol::KeyOf::Dict), value);
  return Step::Next;
}
namespace {
/// Raises the TypeError of `*value` for a value that is not iterable.
void refuse_star(trace::Trace& trace, PyTypeObject* type) {
  if (type->tp_iter || (type->tp_as_sequence && type->tp_as_sequence->sq_item)) return;
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) cannot(Reason::ArgumentKind, std::string("* of a ") + type->tp_name);
  protocol::raise(trace, PyExc_TypeError, std::string("Value after * must be an iterable, not ") + type->tp_name);
}
}  // namespace

Step list_extend(Interpreter& interp, Frame& frame, int depth) {
  Value* iterable = interp.trace.see(frame.pop());
  refuse_star(interp.trace, protocol::type_of(iterable));
  std::vector<Value*> items = protocol::items_of(interp.trace, iterable);
  auto& list = growing<List>(interp, frame, depth)->own_items;
  list.insert(list.end(), items.begin(), items.end());
  return Step::Next;
}
Step set_update(Interpreter& interp, Frame& frame, int depth) {
  Value* iterable = frame.pop();
  protocol::update_set(interp.trace, growing<Set>(interp, frame, depth), iterable);
  return Step::Next;
}

namespace {
/// True if a dict's entries may be copied directly. An OrderedDict has its own iteration, so its subclasses must
/// inherit more.
bool iterates_as_its_base(trace::Trace& trace, Value* seen) {
  static PyObject* const kNames[] = {intern("__iter__"), intern("keys"), intern("__getitem__")};
  auto* object = as<Object>(seen);
  if (!object) return true;
  for (size_t i = 0, asked = PyType_IsSubtype(object->type, &PyODict_Type) ? 3 : 1; i < asked; ++i) {
    PyObject* found = trace.type_lookup(object->type, kNames[i]);
    if (!found || !(Py_IS_TYPE(found, &PyWrapperDescr_Type) || Py_IS_TYPE(found, &PyMethodDescr_Type))) return false;
  }
  return true;
}

/// Copies a mapping's entries; for user mappings by keys() and subscripts.
void update(Interpreter& interp, Dict* into, Value* mapping, bool unique) {
  trace::Trace& trace = interp.trace;
  auto put = [&](Value* key, Value* value) {
    if (unique && trace.dict_get(into, key)) cannot(Reason::ArgumentKind, "a keyword argument given twice");
    trace.dict_set(into, key, value);
  };
  Value* source = trace.see(mapping);
  if (iterates_as_its_base(trace, source)) source = protocol::payload_of(trace, source);
  if (auto* dict = as<Dict>(source)) {
    trace.load(dict);
    dict->entries.each([&](Table::Entry& entry) { put(entry.key, entry.value); });
    return;
  }
  if (auto* instance = as<InstanceDict>(source)) {
    for (Attribute& attribute : trace.all_attributes(instance->owner))
      put(trace.constant(attribute.name), attribute.value);
    return;
  }
  static PyObject* const keys = intern("keys");
  Value* names = protocol::call(trace, protocol::get_attribute(trace, source, keys), {});
  for (Value* key : protocol::items_of(trace, names)) put(key, protocol::get_item(trace, source, key));
}

/// False if the value is no mapping; CPython infers that from any AttributeError, whoever raised it.
bool try_update(Interpreter& interp, Dict* into, Value* mapping, bool unique) {
  try {
    update(interp, into, mapping, unique);
    return true;
  } catch (const UserError& error) {
    if (!protocol::matches(interp.trace, error.exception, interp.trace.pinned(PyExc_AttributeError))) throw;
    return false;
  }
}
}  // namespace

Step dict_update(Interpreter& interp, Frame& frame, int depth) {
  Value* mapping = frame.pop();
  if (!try_update(interp, interp.trace.see_as<Dict>(frame.peek(depth)), mapping, false))
    protocol::raise(
        interp.trace, PyExc_TypeError,
        std::string("'") + protocol::type_of(interp.trace.see(mapping))->tp_name + "' object is not a mapping");
  return Step::Next;
}
Step dict_merge(Interpreter& interp, Frame& frame, int depth) {
  Value* mapping = frame.pop();
  if (!try_update(interp, interp.trace.see_as<Dict>(frame.peek(depth)), mapping, true))
    cannot(Reason::ArgumentKind, "** on an object that is not a mapping");
  return Step::Next;
}
Step list_to_tuple(Interpreter& interp, Frame& frame, int) {
  frame.peek(1) = interp.trace.tuple(interp.trace.see_as<List>(frame.peek(1))->items());
  return Step::Next;
}

// ---- unpacking

namespace {
/// The items to unpack; takes at most `most` items from an iterator.
std::vector<Value*> unpackable(Interpreter& interp, Value* value, size_t most) {
  value = interp.trace.see(value);
  if (!protocol::special_method(interp.trace, value, intern("__iter__")) && value->kind != Kind::Tensor &&
      !protocol::special_method(interp.trace, value, intern("__getitem__")))
    protocol::raise(interp.trace, PyExc_TypeError,
                    std::string("cannot unpack non-iterable ") + protocol::type_of(value)->tp_name + " object");
  if (value->kind == Kind::Tuple || value->kind == Kind::List || value->kind == Kind::Tensor)
    return protocol::items_of(interp.trace, value);
  std::vector<Value*> items;
  Value* iterator = protocol::get_iterator(interp.trace, value);
  while (items.size() < most) {
    Value* item = protocol::next(interp.trace, iterator);
    if (!item) break;
    items.push_back(item);
  }
  return items;
}

[[noreturn]] void raise_too_many(trace::Trace& trace, Value* sequence, int count) {
  sequence = trace.see(sequence);
  PyTypeObject* type = protocol::type_of(sequence);
  const bool counted = type == &PyList_Type || type == &PyTuple_Type || type == &PyDict_Type;
  const auto got = counted ? static_cast<size_t>(protocol::length(trace, sequence)) : 0;
  protocol::raise(trace, PyExc_ValueError, protocol::too_many_text(count, got, counted));
}
}  // namespace

Step unpack_sequence(Interpreter& interp, Frame& frame, int count) {
  Value* sequence = frame.pop();
  std::vector<Value*> items = unpackable(interp, sequence, static_cast<size_t>(count) + 1);
  if (static_cast<int>(items.size()) > count) raise_too_many(interp.trace, sequence, count);
  if (static_cast<int>(items.size()) < count)
    protocol::raise(interp.trace, PyExc_ValueError,
                    "not enough values to unpack (expected " + std::to_string(count) + ", got " +
                        std::to_string(items.size()) + ")");
  frame.stack.insert(frame.stack.end(), items.rbegin(), items.rend());
  return Step::Next;
}

Step unpack_ex(Interpreter& interp, Frame& frame, int arg) {
  size_t before = arg & 0xff, after = arg >> 8;
  std::vector<Value*> items = unpackable(interp, frame.pop(), SIZE_MAX);
  if (items.size() < before + after)
    protocol::raise(interp.trace, PyExc_ValueError,
                    "not enough values to unpack (expected at least " + std::to_string(before + after) + ", got " +
                        std::to_string(items.size()) + ")");
  size_t end = items.size() - after;
  for (size_t i = items.size(); i-- > end;) frame.push(items[i]);
  frame.push(interp.trace.list(std::vector<Value*>(items.begin() + before, items.begin() + end)));
  for (size_t i = before; i-- > 0;) frame.push(items[i]);
  return Step::Next;
}

// ---- match

Step get_len(Interpreter& interp, Frame& frame, int) {
  frame.push(interp.trace.integer(protocol::length(interp.trace, frame.peek(1))));
  return Step::Next;
}
namespace {
Step match_flag(Interpreter& interp, Frame& frame, unsigned long flag) {
  frame.push(interp.trace.boolean(protocol::type_of(interp.trace.see(frame.peek(1)))->tp_flags & flag));
  return Step::Next;
}
}  // namespace
Step match_mapping(Interpreter& interp, Frame& frame, int) { return match_flag(interp, frame, Py_TPFLAGS_MAPPING); }
Step match_sequence(Interpreter& interp, Frame& frame, int) { return match_flag(interp, frame, Py_TPFLAGS_SEQUENCE); }

Step match_keys(Interpreter& interp, Frame& frame, int) {
  auto* keys = interp.trace.see_as<Tuple>(frame.peek(1));
  auto* dict = as<Dict>(protocol::payload_of(interp.trace, frame.peek(2)));
  if (!keys || !dict) cannot(Reason::OpcodeUnsupported, "a mapping pattern on a user's mapping");
  static PyObject* const get = intern("get");
  PyTypeObject* type = protocol::type_of(interp.trace.see(frame.peek(2)));
  if (!Py_IS_TYPE(interp.trace.type_lookup(type, get), &PyMethodDescr_Type))
    cannot(Reason::OpcodeUnsupported, "a mapping pattern on a dict with its own get()");
  std::vector<Value*> values;
  for (Value* key : keys->items) {
    Value* value = interp.trace.dict_get(dict, key);
    if (!value) {
      frame.push(interp.trace.none());
      return Step::Next;
    }
    values.push_back(value);
  }
  frame.push(interp.trace.tuple(std::move(values)));
  return Step::Next;
}

namespace {
/// Types whose one positional pattern is the subject itself.
bool matches_itself(PyTypeObject* type) {
  for (PyTypeObject* one : {&PyBool_Type, &PyByteArray_Type, &PyBytes_Type, &PyDict_Type, &PyFloat_Type,
                            &PyFrozenSet_Type, &PyLong_Type, &PyList_Type, &PySet_Type, &PyUnicode_Type, &PyTuple_Type})
    if (PyType_IsSubtype(type, one)) return true;
  return false;
}
}  // namespace

namespace {
/// The name as an interned str: `__match_args__` may hold any text.
PyObject* interned(trace::Trace& trace, PyObject* name) {
  if (PyUnicode_CHECK_INTERNED(name)) return name;
  return trace.keep(take(PyUnicode_InternFromString(utf8_of(name).c_str())));
}
}  // namespace

Step match_class(Interpreter& interp, Frame& frame, int positional) {
  trace::Trace& trace = interp.trace;
  auto* keywords = trace.see_as<Tuple>(frame.pop());
  auto* cls = trace.see_as<Class>(frame.pop());
  Value* subject = frame.pop();
  if (!cls || !keywords) cannot(Reason::OpcodeUnsupported, "a class pattern on an object that is not a class");
  if (!protocol::isinstance(trace, subject, cls)) {
    frame.push(trace.none());
    return Step::Next;
  }
  std::vector<Value*> names, found;
  Value* fields = positional ? protocol::find_attribute(trace, cls, intern("__match_args__")) : nullptr;
  if (fields) {
    auto* tuple = trace.see_as<Tuple>(fields);
    if (!tuple || static_cast<int>(tuple->items.size()) < positional)
      cannot(Reason::OpcodeUnsupported, "a class pattern that does not fit");
    names.assign(tuple->items.begin(), tuple->items.begin() + positional);
  } else if (positional) {
    if (positional > 1 || !matches_itself(cls->type()))
      cannot(Reason::OpcodeUnsupported, "a class pattern that does not fit");
    found.push_back(subject);
  }
  names.insert(names.end(), keywords->items.begin(), keywords->items.end());
  for (size_t i = 0; i < names.size(); ++i) {
    PyObject* name = trace.constant_of(names[i]);
    auto same = [&](Value* before) { return PyUnicode_Compare(trace.constant_of(before), name) == 0; };
    if (!name || !PyUnicode_CheckExact(name) ||
        std::any_of(names.begin(), names.begin() + static_cast<Py_ssize_t>(i), same))
      cannot(Reason::OpcodeUnsupported, "a class pattern that does not fit");
    Value* value = protocol::find_attribute(trace, subject, interned(trace, name));
    if (!value) {
      frame.push(trace.none());
      return Step::Next;
    }
    found.push_back(value);
  }
  frame.push(trace.tuple(std::move(found)));
  return Step::Next;
}

}  // namespace gramme::interp
