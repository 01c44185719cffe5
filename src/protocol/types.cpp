// type() of values.
#include "base/imported.h"
#include "base/once.h"
#include "protocol/protocol.h"
#include "protocol/steps.h"

namespace gramme::protocol {

using namespace value;

namespace {

/// The type of an iterator over a dict, its views, a set or an instance's attributes.
PyTypeObject* entries_iterator_type(const Iterator* iterator) {
  Value* over = iterator->parts.at(0);
  auto* view = as<View>(over);
  if (view) over = view->dict;
  if (over->kind == Kind::Set) return type_of(IteratorType::Set);
  auto* dict = as<Dict>(over);
  if (dict && PyType_IsSubtype(dict->type, &PyODict_Type)) return type_of(IteratorType::OrderedDict);
  constexpr IteratorType kTypes[][2] = {{IteratorType::Keys, IteratorType::ReversedKeys},
                                        {IteratorType::Values, IteratorType::ReversedValues},
                                        {IteratorType::Items, IteratorType::ReversedItems}};
  return type_of(kTypes[view ? view->which : View::Keys][iterator->increment < 0]);
}

PyTypeObject* reversed_type(const Iterator* iterator) {
  const Kind over = iterator->parts.at(0)->kind;
  return type_of(over == Kind::List    ? IteratorType::ReversedList
                 : over == Kind::Deque ? IteratorType::ReversedDeque
                                       : IteratorType::Reversed);
}

PyTypeObject* iterator_type(Iterator* iterator) {
  switch (iterator->sort) {
    case Iterator::Sequence:
      return sequence_iterator_type(iterator->parts.at(0));
    case Iterator::Entries:
      return entries_iterator_type(iterator);
    case Iterator::Range:
      return type_of(IteratorType::Range);
    case Iterator::Enumerate:
      return type_of(IteratorType::Enumerate);
    case Iterator::Zip:
      return type_of(IteratorType::Zip);
    case Iterator::Map:
      return type_of(IteratorType::Map);
    case Iterator::Filter:
      return type_of(iterator->stop == 1 ? IteratorType::FilterFalse : IteratorType::Filter);
    case Iterator::Reversed:
      return reversed_type(iterator);
    case Iterator::Chain:
      return type_of(IteratorType::Chain);
    case Iterator::Repeat:
      return type_of(IteratorType::Repeat);
    case Iterator::Count:
      return type_of(IteratorType::Count);
    case Iterator::Cycle:
      return type_of(IteratorType::Cycle);
    case Iterator::Islice:
      return type_of(IteratorType::Islice);
    case Iterator::StarMap:
      return type_of(IteratorType::StarMap);
    case Iterator::Accumulate:
      return type_of(IteratorType::Accumulate);
    case Iterator::TakeWhile:
      return type_of(IteratorType::TakeWhile);
    case Iterator::DropWhile:
      return type_of(IteratorType::DropWhile);
    case Iterator::CallUntil:
      return type_of(IteratorType::Callable);
    case Iterator::Other:
      return other_iterator_type(iterator);
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
  PyTypeObject* const wrapper = once([] { return imported_type("types", "MethodWrapperType"); });
  return Py_IS_TYPE(method->object, &PyWrapperDescr_Type) ? wrapper : &PyCFunction_Type;
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
