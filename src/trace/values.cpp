// Constants and containers of constants as values, one value for each literal, and the first look into a lazy one.
#include "trace/values.h"

#include <algorithm>

#include "cpython/objects.h"
#include "source/constant.h"
#include "trace/sets.h"

namespace gramme::trace {

using namespace value;

Values::Values()
    : none_(make<Constant>(nullptr, Py_None)),
      true_(make<Constant>(nullptr, Py_True)),
      false_(make<Constant>(nullptr, Py_False)),
      null_(make<Null>()) {}

void Values::collect(const Value* made) { collected_->insert(made); }

PyObject* Values::keep(Owned<> object) {
  kept_.push_back(std::move(object));
  return kept_.back().get();
}

Py_ssize_t Values::references_to(PyObject* object) const {
  return std::count_if(kept_.begin(), kept_.end(), [&](const Owned<>& kept) { return kept.get() == object; });
}

Value* Values::wrap(PyObject* object, const Source* source) {
  if (object == Py_None && source->kind == source::Kind::Pinned) return none_;
  kept_.push_back(share(object));
  return make<Lazy>(source, object);
}

Value* Values::force(Lazy* lazy) {
  if (!lazy->target) lazy->target = realize(lazy->object, lazy->source);
  return lazy->target;
}

// ---- new values

Value* Values::constant(PyObject* object) {
  if (object == Py_None) return none_;
  if (object == Py_True) return true_;
  if (object == Py_False) return false_;
  return make<Constant>(nullptr, keep(share(object)));
}

Value* Values::constant(Owned<> object) {
  if (object.get() == Py_None) return none_;
  if (object.get() == Py_True) return true_;
  if (object.get() == Py_False) return false_;
  return make<Constant>(nullptr, keep(std::move(object)));
}

Value* Values::integer(int64_t n) { return constant(take(PyLong_FromLongLong(n))); }
Value* Values::text(const std::string& s) {
  return constant(take(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "surrogateescape")));
}

Tuple* Values::tuple(std::vector<Value*> items) {
  auto* result = make<Tuple>();
  result->items = std::move(items);
  return result;
}

List* Values::list(std::vector<Value*> items) {
  auto* result = make<List>();
  result->own_items = std::move(items);
  return result;
}

Value* Values::literal(PyObject* object) {
  if (!PyTuple_Check(object) && !PyFrozenSet_Check(object) && !PySlice_Check(object)) return constant(object);
  if (const auto known = literals_.find(object); known != literals_.end()) return known->second;
  Value* made = nullptr;
  if (PyTuple_Check(object)) {
    std::vector<Value*> items;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) items.push_back(literal(PyTuple_GET_ITEM(object, i)));
    made = tuple(std::move(items));
  } else {
    made = adopt(share(object));
  }
  made->object = keep(share(object));
  return literals_[object] = made;
}

Value* Values::adopt(Owned<> object) {
  PyObject* o = object.get();
  if (source::is_constant(o) && !PyTuple_Check(o) && !PyFrozenSet_Check(o) && !PySlice_Check(o))
    return constant(std::move(object));
  if (PyTuple_Check(o)) {
    auto* result = make<Tuple>();
    result->type = Py_TYPE(o);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) result->items.push_back(adopt(share(PyTuple_GET_ITEM(o, i))));
    return result;
  }
  if (PyList_CheckExact(o)) {
    auto* result = make<List>();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i)
      result->own_items.push_back(adopt(share(PyList_GET_ITEM(o, i))));
    return result;
  }
  if (PyDict_CheckExact(o)) {
    auto* result = make<Dict>();
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &item);)
      result->entries.set(adopt(share(key)), adopt(share(item)));
    return result;
  }
  if (PyAnySet_CheckExact(o)) {
    auto* result = make<Set>();
    result->frozen = PyFrozenSet_CheckExact(o);
    Owned<> items = take(PySequence_List(o));
    Table entries;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i)
      entries.set(adopt(share(PyList_GET_ITEM(items.get(), i))), nullptr);
    Owned<> places = take(PySet_New(nullptr));
    if (!cpython::place_members(places.get(), o)) throw PythonError();
    set_members(*this, result, std::move(entries), std::move(places));
    return result;
  }
  if (PySlice_Check(o)) {
    auto* slice = reinterpret_cast<PySliceObject*>(o);
    auto* result = make<Slice>();
    result->start = adopt(share(slice->start));
    result->stop = adopt(share(slice->stop));
    result->step = adopt(share(slice->step));
    return result;
  }
  return adopt_held(std::move(object));
}

}  // namespace gramme::trace
