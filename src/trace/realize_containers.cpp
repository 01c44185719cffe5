// Makes the value of a real container.
#include "cpython/entries.h"
#include "cpython/objects.h"
#include "source/constant.h"
#include "trace/capture.h"
#include "trace/realize.h"

namespace gramme::trace {

using namespace value;
using SK = source::Kind;

namespace {

/// True for tuple types whose instances are only their items: namedtuples, torch.Size, structure sequences; no instance
/// dict.
bool is_transparent_tuple(PyTypeObject* type) {
  if (type == &PyTuple_Type || type == known_types().size) return true;
  if (type->tp_dictoffset != 0 || cpython::has_managed_dict(type)) return false;
  static PyObject* const fields = intern("_fields");
  static PyObject* const sequence_fields = intern("n_sequence_fields");
  return cpython::type_lookup(type, fields) || cpython::type_lookup(type, sequence_fields);
}

/// True if guards may hold the member, so that a set of such members can be guarded as a whole.
bool is_held_member(PyObject* member) {
  return source::is_constant(member) || Py_IS_TYPE(member, &PyType_Type) || PyCFunction_Check(member);
}

}  // namespace

Value* Capture::realize_tuple(PyObject* object, const Source* source) {
  facts.add_length(source, PyTuple_GET_SIZE(object));
  auto* result = make<Tuple>(source, object);
  result->type = Py_TYPE(object);
  result->items.reserve(PyTuple_GET_SIZE(object));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    result->items.push_back(wrap(PyTuple_GET_ITEM(object, i), pool->child(source, SK::Item, i)));
  if (is_transparent_tuple(Py_TYPE(object))) return result;
  auto* instance = make<Object>(source, object);
  instance->type = Py_TYPE(object);
  instance->payload = result;
  result->type = &PyTuple_Type;
  return instance;
}

List* Capture::list_payload(PyObject* object, const Source* source) {
  auto* result = make<List>(source, object);
  result->unread = &lists_;
  return result;
}

/// Reads the real items of a list; items appended before that stay behind them.
void Capture::Lists::read(List* list) {
  list->unread = nullptr;
  Py_ssize_t size = PyList_GET_SIZE(list->object);
  capture.facts.add_length(list->source, size);
  std::vector<Value*> items;
  items.reserve(size + list->own_items.capacity());  // never zero capacity for a list that had items: see list.sort
  for (Py_ssize_t i = 0; i < size; ++i)
    items.push_back(capture.wrap(PyList_GET_ITEM(list->object, i), capture.pool->child(list->source, SK::Item, i)));
  if (list->written) capture.originals_[list] = items;
  items.insert(items.end(), list->own_items.begin(), list->own_items.end());
  list->own_items = std::move(items);
}

Value* Capture::realize_list(PyObject* object, const Source* source) {
  List* list = list_payload(object, source);
  if (PyList_CheckExact(object)) return list;
  auto* instance = make<Object>(source, object);
  instance->type = Py_TYPE(object);
  instance->payload = list;
  return instance;
}

Dict* Capture::dict_payload(PyObject* object, const Source* source) {
  auto* result = make<Dict>(source, object);
  result->loaded = false;
  return result;
}

Value* Capture::default_factory(PyObject* object, const Source* source) {
  PyObject* factory = *cpython::default_factory_address(object);
  return factory ? wrap(factory, pool->child(source, SK::DefaultFactory)) : none();
}

Value* Capture::realize_dict(PyObject* object, const Source* source) {
  objects.refuse_as_dict(object);
  PyTypeObject* type = Py_TYPE(object);
  Dict* dict = dict_payload(object, source);
  const KnownTypes& types = known_types();
  if (type == &PyDict_Type) return dict;
  if (type == &PyODict_Type) {
    dict->type = type;
    return dict;
  }
  if (type == types.defaultdict) {
    dict->type = type;
    dict->factory = default_factory(object, source);
    return dict;
  }
  if (PyODict_Check(object)) dict->type = &PyODict_Type;
  if (PyType_IsSubtype(type, types.defaultdict)) dict->factory = default_factory(object, source);
  auto* instance = make<Object>(source, object);
  instance->type = type;
  instance->payload = dict;
  return instance;
}

Value* Capture::realize_set(PyObject* object, const Source* source) {
  auto* result = make<Set>(source, object);
  result->frozen = PyFrozenSet_Check(object);
  Owned<> items = take(PyList_New(0)), places = take(PySet_New(nullptr));
  PyObject* member;
  Py_hash_t hash;
  for (Py_ssize_t at = 0; cpython::next_member(object, &at, &member, &hash);)  // a subclass may iterate in its own way
    check(PyList_Append(items.get(), member));
  bool constants = true;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i)
    constants = constants && is_held_member(PyList_GET_ITEM(items.get(), i));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(items.get(), i);
    Value* key = constants ? adopt(share(item)) : see(wrap(item, pool->child(source, SK::MemberAt, i)));
    if (!hashable(key)) cannot(Reason::SourceUnknown, "a set of objects that compare themselves");
    result->entries.set(key, nullptr);
  }
  if (constants) {
    if (!cpython::place_members(places.get(), object)) throw PythonError();
    facts.add({source, guards::Kind::SetIs, take(PyFrozenSet_New(object))});
    result->places = keep(std::move(places));
  } else {
    facts.add_length(source, PyList_GET_SIZE(items.get()));
    result->placed = false;
  }
  if (PyAnySet_CheckExact(object)) return result;
  auto* instance = make<Object>(source, object);
  instance->type = Py_TYPE(object);
  instance->payload = result;
  return instance;
}

Value* Capture::realize_deque(PyObject* object, const Source* source) {
  auto* result = make<Deque>(source, object);
  auto* deque = cpython::as_deque(object);
  result->maxlen = deque->maxlen;
  Py_ssize_t n = Py_SIZE(object);
  facts.add_length(source, n);
  guards::Fact bounded{source, guards::Kind::MaxLength, {}};
  bounded.number = deque->maxlen;
  facts.add(std::move(bounded));
  for (Py_ssize_t i = 0; i < n; ++i)
    result->items.push_back(wrap(*cpython::deque_item_address(object, i), pool->child(source, SK::DequeItem, i)));
  if (Py_IS_TYPE(object, known_types().deque)) return result;
  auto* instance = make<Object>(source, object);
  instance->type = Py_TYPE(object);
  instance->payload = result;
  return instance;
}

}  // namespace gramme::trace
