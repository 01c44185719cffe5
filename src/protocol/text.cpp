// str(), repr() and format(). Text that holds an address, or the data of a tensor, ends the segment.
#include <algorithm>

#include "protocol/answers.h"
#include "protocol/number.h"
#include "protocol/special.h"
#include "value/traits.h"

namespace gramme::protocol {

using namespace value;

namespace {

/// A str put together from pieces.
class Pieces {
 public:
  Pieces& operator<<(const char* text) { return *this << take(PyUnicode_FromString(text)); }
  Pieces& operator<<(const std::string& text) { return *this << text.c_str(); }
  Pieces& operator<<(const Owned<>& text) {
    check(PyList_Append(list_.get(), text.get()));
    return *this;
  }
  Pieces& operator<<(Value* text) { return *this << share(text->object); }
  Value* joined(Trace& trace) const {
    Owned<> nothing = take(PyUnicode_FromString(""));
    return trace.constant(take(PyUnicode_Join(nothing.get(), list_.get())));
  }

 private:
  Owned<> list_ = take(PyList_New(0));
};

PyTypeObject* defining_class(PyObject* raw) {
  return raw && Py_TYPE(raw) == &PyWrapperDescr_Type ? reinterpret_cast<PyDescrObject*>(raw)->d_type : nullptr;
}

// ---- containers

/// Scope of one value's repr, so that a container inside itself prints as "...".
class Active {
 public:
  Active(Trace& trace, Value* container)
      : stack_(trace.state<Stack>()), again_(std::find(stack_.begin(), stack_.end(), container) != stack_.end()) {
    stack_.push_back(container);
  }
  ~Active() { stack_.pop_back(); }
  Active(const Active&) = delete;
  bool again() const { return again_; }

 private:
  struct Stack : std::vector<Value*> {};
  Stack& stack_;
  bool again_;
};

void add_items(Trace& trace, Pieces& pieces, const std::vector<Value*>& items) {
  for (size_t i = 0; i < items.size(); ++i) pieces << (i ? ", " : "") << to_repr(trace, items[i]);
}

Value* repr_of_items(Trace& trace, const std::string& open, const std::vector<Value*>& items,
                     const std::string& close) {
  Pieces pieces;
  pieces << open;
  add_items(trace, pieces, items);
  pieces << close;
  return pieces.joined(trace);
}

Value* repr_of(Trace& trace, Tuple* tuple) {
  if (is_size(tuple->type)) return repr_of_items(trace, "torch.Size([", tuple->items, "])");
  if (tuple->type != &PyTuple_Type) cannot(Reason::ArgumentKind, "repr() of " + type_name(tuple));
  return repr_of_items(trace, "(", tuple->items, tuple->items.size() == 1 ? ",)" : ")");
}

Value* repr_of(Trace& trace, Deque* deque) {
  std::string bound = deque->maxlen < 0 ? "" : ", maxlen=" + std::to_string(deque->maxlen);
  return repr_of_items(trace, "deque([", deque->items, "]" + bound + ")");
}

Value* repr_of(Trace& trace, Set* set) {
  std::vector<Value*> items = items_of(trace, set);
  if (items.empty()) return trace.text(set->frozen ? "frozenset()" : "set()");
  return repr_of_items(trace, set->frozen ? "frozenset({" : "{", items, set->frozen ? "})" : "}");
}

Value* repr_of(Trace& trace, View* view) {
  return repr_of_items(trace, type_name(view) + "([", items_of(trace, view), "])");
}

Value* repr_of(Trace& trace, Slice* slice) {
  return repr_of_items(trace, "slice(", {slice->start, slice->stop, slice->step}, ")");
}

Value* plain_dict_repr(Trace& trace, Value* mapping) {
  std::vector<std::pair<Value*, Value*>> entries;
  mapping_entries(trace, mapping, entries);
  Pieces pieces;
  pieces << "{";
  for (size_t i = 0; i < entries.size(); ++i)
    pieces << (i ? ", " : "") << to_repr(trace, entries[i].first) << ": " << to_repr(trace, entries[i].second);
  pieces << "}";
  return pieces.joined(trace);
}

Value* ordered_dict_repr(Trace& trace, Dict* dict) {
  std::vector<std::pair<Value*, Value*>> entries;
  mapping_entries(trace, dict, entries);
  if (entries.empty()) return trace.text("OrderedDict()");
  std::vector<Value*> pairs;
  for (auto& [key, value] : entries) pairs.push_back(trace.tuple({key, value}));
  return repr_of_items(trace, "OrderedDict([", pairs, "])");
}

Value* repr_of(Trace& trace, Dict* dict) {
  if (dict->type == &PyDict_Type) return plain_dict_repr(trace, dict);
  if (PyType_IsSubtype(dict->type, &PyODict_Type)) return ordered_dict_repr(trace, dict);
  Pieces pieces;
  pieces << "defaultdict(" << to_repr(trace, dict->factory ? dict->factory : trace.none()) << ", "
         << plain_dict_repr(trace, dict) << ")";
  return pieces.joined(trace);
}

Value* repr_of(Trace& trace, InstanceDict* dict) { return plain_dict_repr(trace, dict); }

Value* repr_of(Trace& trace, List* list) { return repr_of_items(trace, "[", list->items(), "]"); }

// ---- the other kinds

[[noreturn]] void refuse_address(Value* seen) {
  cannot(Reason::ArgumentKind, "repr() of " + type_name(seen) + ", which shows an address");
}

/// The repr of a class or function, with its name guarded.
Value* named_repr(Trace& trace, Value* named) {
  for (PyObject* name : {intern("__module__"), intern("__qualname__")}) find_attribute(trace, named, name);
  return folded(trace, PyObject_Repr(named->object));
}

bool has_address(Builtin* builtin) {
  PyObject* self = PyCFunction_Check(builtin->object) ? PyCFunction_GET_SELF(builtin->object) : nullptr;
  return self && !PyModule_Check(self) && !PyType_Check(self);
}

Value* repr_of(Trace& trace, Constant* constant) { return folded(trace, PyObject_Repr(constant->object)); }
Value* repr_of(Trace& trace, Module* module) { return folded(trace, PyObject_Repr(module->object)); }
Value* repr_of(Trace& trace, Class* seen) { return named_repr(trace, seen); }
Value* repr_of(Trace& trace, Builtin* builtin) {
  if (has_address(builtin)) refuse_address(builtin);
  return named_repr(trace, builtin);
}
Value* repr_of(Trace&, Tensor*) { cannot(Reason::DataDependentValue, "a tensor as text: its values are printed"); }

/// The repr by the builtin type of its kind, ignoring the class.
Value* repr_of_kind(Trace& trace, Value* seen) {
  if (!has(seen->kind, PRINTED)) refuse_address(seen);
  Active active(trace, seen);
  if (active.again()) {
    if (seen->kind == Kind::List || seen->kind == Kind::Deque) return trace.text("[...]");
    return trace.text(seen->kind == Kind::Tuple ? "(...)" : "{...}");
  }
  return as_kind<PRINTED>(seen, [&](auto* printed) { return repr_of(trace, printed); });
}

// ---- exceptions

Tuple* exception_args(Value* seen) {
  auto* object = as<Object>(seen);
  bool exception = object && PyType_IsSubtype(object->type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException));
  return exception && object->payload ? as<Tuple>(object->payload) : nullptr;
}

/// str() of an exception whose class has BaseException's or KeyError's; null otherwise.
Value* exception_str(Trace& trace, Object* exception, Tuple* args) {
  static PyObject* const str_name = intern("__str__");
  PyTypeObject* definer = defining_class(trace.type_lookup(exception->type, str_name));
  bool key_error = definer == reinterpret_cast<PyTypeObject*>(PyExc_KeyError);
  if (!key_error && definer != reinterpret_cast<PyTypeObject*>(PyExc_BaseException)) return nullptr;
  if (args->items.empty()) return trace.text("");
  if (args->items.size() > 1) return to_repr(trace, args);
  return key_error ? to_repr(trace, args->items[0]) : to_str(trace, args->items[0]);
}

Value* exception_repr(Trace& trace, Object* exception, Tuple* args) {
  static PyObject* const repr_name = intern("__repr__");
  PyTypeObject* definer = defining_class(trace.type_lookup(exception->type, repr_name));
  if (definer != reinterpret_cast<PyTypeObject*>(PyExc_BaseException)) return nullptr;
  trace.classes.guard_names_in(_PyType_Name(exception->type));
  return repr_of_items(trace, std::string(_PyType_Name(exception->type)) + "(", args->items, ")");
}

// ---- the rest

Value* object_repr(Trace& trace, Value* seen) {
  static PyObject* const repr_name = intern("__repr__");
  if (Tuple* args = exception_args(seen))
    if (Value* text = exception_repr(trace, static_cast<Object*>(seen), args)) return text;
  if (Value* payload = payload_for(trace, seen, repr_name)) {
    auto* dict = as<Dict>(payload);
    bool shows_class =
        payload->kind == Kind::Set || payload->kind == Kind::Deque || (dict && dict->type != &PyDict_Type);
    if (!shows_class) return to_repr(trace, payload);
  }
  if (Value* method = own_method(trace, seen, repr_name)) return answer(trace, Answer::of_repr, method);
  if (seen->kind == Kind::Class) return trace.constant(take(PyObject_Repr(seen->object)));
  if (seen->kind == Kind::Tuple) return repr_of_kind(trace, seen);
  refuse_address(seen);
}

}  // namespace

Value* to_repr(Trace& trace, Value* object) {
  Trace::Deeper deeper(trace);
  trace.progress.tick();
  object = known(trace, trace.see(object));
  return has_own_class(object) ? object_repr(trace, object) : repr_of_kind(trace, object);
}

Value* to_str(Trace& trace, Value* object) {
  static PyObject* const str_name = intern("__str__");
  object = known(trace, trace.see(object));
  if (object->kind == Kind::Constant)
    return is_constant_of(object, &PyUnicode_Type) ? object : folded(trace, PyObject_Str(object->object));
  if (!has_own_class(object)) return to_repr(trace, object);
  if (Tuple* args = exception_args(object))
    if (Value* text = exception_str(trace, static_cast<Object*>(object), args)) return text;
  if (Value* payload = payload_for(trace, object, str_name)) return to_str(trace, payload);
  if (Value* method = own_method(trace, object, str_name)) return answer(trace, Answer::of_str, method);
  return to_repr(trace, object);
}

namespace {
/// format() of a subclass instance's builtin content. The error for an invalid format names the class.
Value* formatted_part(Trace& trace, Value* payload, Value* spec) {
  try {
    return format(trace, payload, spec);
  } catch (const UserError&) {
    cannot(Reason::ArgumentKind, "a format that is refused");
  }
}
}  // namespace

Value* format(Trace& trace, Value* object, Value* spec) {
  static PyObject* const format_name = intern("__format__");
  object = known(trace, trace.see(object));
  spec = spec ? builtin_part(trace.see(spec)) : trace.text("");
  if (!is_constant_of(spec, &PyUnicode_Type))
    raise_about(trace, PyExc_TypeError, "Format specifier must be a string, not {}", spec);
  if (object->kind == Kind::Tensor) cannot(Reason::DataDependentValue, "a tensor as text: its values are printed");
  if (object->kind == Kind::Constant) return folded(trace, PyObject_Format(object->object, spec->object));
  if (Value* payload = payload_for(trace, object, format_name))  // without a template they ask the class for its str()
    return PyUnicode_GET_LENGTH(spec->object) > 0 ? formatted_part(trace, payload, spec) : to_str(trace, object);
  if (Value* method = own_method(trace, object, format_name)) return answer(trace, Answer::of_format, method, {spec});
  if (PyUnicode_GET_LENGTH(spec->object) > 0)
    raise_about(trace, PyExc_TypeError, "unsupported format string passed to {}.__format__", object);
  return to_str(trace, object);
}

}  // namespace gramme::protocol
