// Types of values.
#include "base/imported.h"
#include "base/once.h"
#include "protocol/protocol.h"

namespace gramme::protocol {

using namespace value;

namespace {

/// Of an iterator over the items or entries of a container.
PyTypeObject* walk_type(Iterator* iterator) {
  Value* over = iterator->parts.empty() ? nullptr : iterator->parts[0];
  bool backwards = iterator->increment < 0;
  auto* view = over ? as<View>(over) : nullptr;
  if (view) over = view->dict;
  if (!over) return nullptr;
  auto* dict = as<Dict>(over);
  if (dict && PyType_IsSubtype(dict->type, &PyODict_Type)) return &PyODictIter_Type;
  View::Which which = view ? view->which : View::Keys;
  static PyTypeObject* const kTypes[][2] = {{&PyDictIterKey_Type, &PyDictRevIterKey_Type},
                                            {&PyDictIterValue_Type, &PyDictRevIterValue_Type},
                                            {&PyDictIterItem_Type, &PyDictRevIterItem_Type}};
  if (dict || over->kind == Kind::InstanceDict) return kTypes[which][backwards];
  if (over->kind == Kind::Set) return &PySetIter_Type;
  if (over->kind == Kind::List) return &PyListIter_Type;
  return over->kind == Kind::Tuple ? &PyTupleIter_Type : nullptr;
}

PyTypeObject* iterator_type(Iterator* iterator) {
  PyTypeObject* const list_iterator =
      once([] { return Py_TYPE(take(PyObject_GetIter(take(PyList_New(0)).get())).get()); });
  switch (iterator->sort) {
    case Iterator::Sequence:
    case Iterator::Entries:
      if (PyTypeObject* type = walk_type(iterator)) return type;
      return list_iterator;
    case Iterator::Range:
      return &PyRangeIter_Type;
    case Iterator::Enumerate:
      return &PyEnum_Type;
    case Iterator::Zip:
      return &PyZip_Type;
    case Iterator::Map:
      return &PyMap_Type;
    case Iterator::Filter:
      return &PyFilter_Type;
    case Iterator::Reversed:
      return iterator->parts.at(0)->kind == Kind::List ? &PyListRevIter_Type : &PyReversed_Type;
    case Iterator::Chain:
    case Iterator::Repeat:
    case Iterator::Count:
    case Iterator::Cycle:
    case Iterator::Islice:
    case Iterator::StarMap:
    case Iterator::Accumulate:
    case Iterator::TakeWhile:
    case Iterator::DropWhile:
    case Iterator::CallUntil:
    case Iterator::Other:
      return list_iterator;
    case Iterator::Live:
      return Py_TYPE(iterator->object);
  }
  GRAMME_BUG("a value of no kind");
}

// ---- one for each kind whose row in kinds.def says ASKED

PyTypeObject* asked_type(Tensor* tensor) {
  PyTypeObject* const torch_tensor = once([] { return imported_type("torch", "Tensor"); });
  return tensor->record->type ? tensor->record->type : torch_tensor;
}
PyTypeObject* asked_type(Number* number) { return number->type; }
PyTypeObject* asked_type(Tuple* tuple) { return tuple->type; }
PyTypeObject* asked_type(Dict* dict) { return dict->type; }
PyTypeObject* asked_type(Set* set) { return set->frozen ? &PyFrozenSet_Type : &PySet_Type; }
PyTypeObject* asked_type(Deque*) {
  PyTypeObject* const deque = once([] { return imported_type("collections", "deque"); });
  return deque;
}
PyTypeObject* asked_type(View* view) {
  return view->which == View::Keys     ? &PyDictKeys_Type
         : view->which == View::Values ? &PyDictValues_Type
                                       : &PyDictItems_Type;
}
PyTypeObject* asked_type(Iterator* iterator) { return iterator_type(iterator); }
PyTypeObject* asked_type(Object* object) { return object->type; }
PyTypeObject* asked_type(BuiltinMethod* method) {
  return Py_IS_TYPE(method->object, &PyWrapperDescr_Type) ? &_PyMethodWrapper_Type : &PyCFunction_Type;
}
PyTypeObject* asked_type(Partial*) {
  PyTypeObject* const partial = once([] { return imported_type("functools", "partial"); });
  return partial;
}
[[noreturn]] PyTypeObject* never_asked(Value* seen) {
  GRAMME_BUG(std::string("the type of a ") + kind_name(seen->kind));
}

}  // namespace

PyTypeObject* type_of(Value* seen) {
  switch (seen->kind) {
#define FIXED(type) &type
#define OF_OBJECT Py_TYPE(seen->object)
#define ASKED asked_type(static_cast<T*>(seen))
#define NONE never_asked(seen)
#define KIND(name, properties, answers, modelled, type, rebuilt, text) \
  case Kind::name: {                                                   \
    using T [[maybe_unused]] = value::name;                            \
    return type;                                                       \
  }
#include "value/kinds.def"
#undef KIND
#undef NONE
#undef ASKED
#undef OF_OBJECT
#undef FIXED
  }
  GRAMME_BUG("a value of no kind");
}

Value* class_value(Trace& trace, PyTypeObject* type) { return trace.pinned(reinterpret_cast<PyObject*>(type)); }

Value* payload_of(Trace& trace, Value* value) {
  value = trace.see(value);
  auto* object = as<Object>(value);
  return object && object->payload ? object->payload : value;
}

}  // namespace gramme::protocol
