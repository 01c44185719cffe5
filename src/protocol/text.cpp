// str(), repr() and format(). Text that holds an address, or the data of a tensor, ends the segment.
#include <algorithm>

#include "protocol/answers.h"
#include "protocol/number.h"
#include "protocol/special.h"

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

/// Containers whose repr is being made: one that holds itself shows as "...".
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

Value* tuple_repr(Trace& trace, Tuple* tuple) {
  if (is_size(tuple->type)) return repr_of_items(trace, "torch.Size([", tuple->items, "])");
  if (tuple->type != &PyTuple_Type) cannot(Reason::ArgumentKind, "repr() of " + type_name(tuple));
  return repr_of_items(trace, "(", tuple->items, tuple->items.size() == 1 ? ",)" : ")");
}

Value* deque_repr(Trace& trace, Deque* deque) {
  std::string bound = deque->maxlen < 0 ? "" : ", maxlen=" + std::to_string(deque->maxlen);
  return repr_of_items(trace, "deque([", deque->items, "]" + bound + ")");
}

Value* set_repr(Trace& trace, Set* set) {
  std::vector<Value*> items = items_of(trace, set);
  if (items.empty()) return trace.text(set->frozen ? "frozenset()" : "set()");
  return repr_of_items(trace, set->frozen ? "frozenset({" : "{", items, set->frozen ? "})" : "}");
}

Value* view_repr(Trace& trace, View* view) {
  return repr_of_items(trace, type_name(view) + "([", items_of(trace, view), "])");
}

Value* slice_repr(Trace& trace, Slice* slice) {
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

Value* dict_repr(Trace& trace, Dict* dict) {
  if (dict->type == &PyDict_Type) return plain_dict_repr(trace, dict);
  if (PyType_IsSubtype(dict->type, &PyODict_Type)) return ordered_dict_repr(trace, dict);
  Pieces pieces;
  pieces << "defaultdict(" << to_repr(trace, dict->factory ? dict->factory : trace.none()) << ", "
         << plain_dict_repr(trace, dict) << ")";
  return pieces.joined(trace);
}

Value* container_repr(Trace& trace, Value* seen) {
  Active active(trace, seen);
  if (active.again()) {
    if (seen->kind == Kind::List || seen->kind == Kind::Deque) return trace.text("[...]");
    return trace.text(seen->kind == Kind::Tuple ? "(...)" : "{...}");
  }
  switch (seen->kind) {
    case Kind::List:
      return repr_of_items(trace, "[", static_cast<List*>(seen)->items(), "]");
    case Kind::Tuple:
      return tuple_repr(trace, static_cast<Tuple*>(seen));
    case Kind::Deque:
      return deque_repr(trace, static_cast<Deque*>(seen));
    case Kind::Dict:
      return dict_repr(trace, static_cast<Dict*>(seen));
    case Kind::InstanceDict:
      return plain_dict_repr(trace, seen);
    case Kind::Set:
      return set_repr(trace, static_cast<Set*>(seen));
    case Kind::View:
      return view_repr(trace, static_cast<View*>(seen));
    case Kind::Lazy:
    case Kind::Constant:
    case Kind::Tensor:
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
    case Kind::Namespace:
    case Kind::Object:
    case Kind::Partial:
    case Kind::Super:
    case Kind::Null:
      return slice_repr(trace, static_cast<Slice*>(seen));
  }
  GRAMME_BUG("a value of no kind");
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
  trace.guard_names_in(_PyType_Name(exception->type));
  return repr_of_items(trace, std::string(_PyType_Name(exception->type)) + "(", args->items, ")");
}

// ---- the rest

bool has_address(Value* builtin) {
  PyObject* self = PyCFunction_Check(builtin->object) ? PyCFunction_GET_SELF(builtin->object) : nullptr;
  return self && !PyModule_Check(self) && !PyType_Check(self);
}

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
  if (seen->kind == Kind::Tuple) return container_repr(trace, seen);
  cannot(Reason::ArgumentKind, "repr() of " + type_name(seen) + ", which shows an address");
}

}  // namespace

Value* to_repr(Trace& trace, Value* object) {
  trace.tick();
  object = known(trace, trace.see(object));
  if (has_own_class(object)) return object_repr(trace, object);
  switch (object->kind) {
    case Kind::Constant:
      return folded(trace, PyObject_Repr(object->object));
    case Kind::List:
    case Kind::Tuple:
    case Kind::Deque:
    case Kind::Dict:
    case Kind::InstanceDict:
    case Kind::Set:
    case Kind::View:
    case Kind::Slice:
      return container_repr(trace, object);
    case Kind::Builtin:
      if (has_address(object)) break;
      [[fallthrough]];
    case Kind::Class:
      for (PyObject* name : {intern("__module__"), intern("__qualname__")}) find_attribute(trace, object, name);
      [[fallthrough]];
    case Kind::Module:
      return folded(trace, PyObject_Repr(object->object));
    case Kind::Tensor:
      cannot(Reason::DataDependentValue, "the text of a tensor");
    case Kind::Lazy:
    case Kind::Number:
    case Kind::Iterator:
    case Kind::Generator:
    case Kind::Function:
    case Kind::Cell:
    case Kind::Method:
    case Kind::BuiltinMethod:
    case Kind::Namespace:
    case Kind::Object:
    case Kind::Partial:
    case Kind::Super:
    case Kind::Null:
      break;
  }
  cannot(Reason::ArgumentKind, "repr() of " + type_name(object) + ", which shows an address");
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

Value* format(Trace& trace, Value* object, Value* spec) {
  static PyObject* const format_name = intern("__format__");
  object = known(trace, trace.see(object));
  spec = spec ? builtin_part(trace.see(spec)) : trace.text("");
  if (!is_constant_of(spec, &PyUnicode_Type))
    raise_about(trace, PyExc_TypeError, "Format specifier must be a string, not {}", spec);
  if (object->kind == Kind::Tensor) cannot(Reason::DataDependentValue, "the text of a tensor");
  if (object->kind == Kind::Constant) return folded(trace, PyObject_Format(object->object, spec->object));
  if (Value* payload = payload_for(trace, object, format_name)) return format(trace, payload, spec);
  if (Value* method = own_method(trace, object, format_name)) return answer(trace, Answer::of_format, method, {spec});
  if (PyUnicode_GET_LENGTH(spec->object) > 0)
    raise_about(trace, PyExc_TypeError, "unsupported format string passed to {}.__format__", object);
  return to_str(trace, object);
}

}  // namespace gramme::protocol
