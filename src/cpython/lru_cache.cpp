// Mirrors the layout of functools' C wrapper. The layout is verified once on a new cache; without a match no object
// counts as an lru_cache.
#include "cpython/lru_cache.h"

#include "base/imported.h"
#include "base/once.h"
#include "cpython/objects.h"

namespace gramme::cpython {
namespace {

struct Link {
  PyObject_HEAD Link *previous, *next;  // borrowed; a ring through the wrapper's `root`
  Py_hash_t hash;
  PyObject *key, *result;
};

struct Cache {
  Link root;
  void* wrapper;
  int typed;
  PyObject* table;
  Py_ssize_t hits;
  PyObject* function;
  Py_ssize_t maxsize;  // -1: unbounded
  Py_ssize_t misses;
  PyObject* keyword_mark;
  PyTypeObject* link_type;
};

Cache* as_cache(PyObject* object) { return reinterpret_cast<Cache*>(object); }

struct Types {
  PyTypeObject* cache = nullptr;
  PyTypeObject* link = nullptr;
};

/// Verifies the layout on a new cache after one call; returns no types if it differs.
Types find_types() {
  PyTypeObject* type = imported_type("functools", "_lru_cache_wrapper");
  Owned<> make = imported("functools", "lru_cache");
  Owned<> decorate = take(PyObject_CallFunction(make.get(), "i", 7));
  PyObject* const length = PyDict_GetItemString(PyEval_GetBuiltins(), "len");
  Owned<> wrapper = take(PyObject_CallOneArg(decorate.get(), length));
  if (!Py_IS_TYPE(wrapper.get(), type)) return {};
  Owned<> first = take(PyObject_CallFunction(wrapper.get(), "s", "gramme"));
  Cache* cache = as_cache(wrapper.get());
  const bool counts = cache->maxsize == 7 && cache->misses == 1 && cache->hits == 0 && cache->typed == 0;
  if (!counts || cache->function != length || !PyDict_CheckExact(cache->table)) return {};
  PyObject *key, *link;
  if (!dict_entry(cache->table, 0, &key, &link) || !Py_IS_TYPE(link, cache->link_type)) return {};
  auto* entry = reinterpret_cast<Link*>(link);
  const bool linked = entry->key == key && entry->result == first.get() && entry->next == &cache->root;
  return linked ? Types{type,
                        reinterpret_cast<PyTypeObject*>(share(reinterpret_cast<PyObject*>(cache->link_type)).release())}
                : Types{};
}

const Types& types() {
  const Types* known = once([] { return new Types(find_types()); });
  return *known;
}

void to_the_end(Cache* cache, Link* link) {
  link->previous->next = link->next;
  link->next->previous = link->previous;
  Link *root = &cache->root, *last = root->previous;
  last->next = root->previous = link;
  link->previous = last;
  link->next = root;
}

PyObject* count_hit(PyObject*, PyObject* const* args, Py_ssize_t count) {
  PyObject* found = nullptr;
  if (count != 2 || !is_lru_cache(args[0])) Py_RETURN_NONE;
  Cache* cache = as_cache(args[0]);
  if (dict_lookup(cache->table, args[1], &found) != Lookup::Found) Py_RETURN_NONE;
  if (Py_IS_TYPE(found, cache->link_type) && is_bounded_cache(args[0]))
    to_the_end(cache, reinterpret_cast<Link*>(found));
  ++cache->hits;
  Py_RETURN_NONE;
}
PyMethodDef counter = {"count_hit", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&count_hit)), METH_FASTCALL,
                       nullptr};

void set_next(PyObject* tuple, Py_ssize_t& at, PyObject* item) { PyTuple_SET_ITEM(tuple, at++, share(item).release()); }

PyObject* type_of(PyObject* object) { return reinterpret_cast<PyObject*>(Py_TYPE(object)); }

}  // namespace

bool is_lru_cache(PyObject* object) {
  return types().cache && Py_IS_TYPE(object, types().cache) && as_cache(object)->maxsize != 0;
}

bool is_typed_cache(PyObject* wrapper) { return as_cache(wrapper)->typed != 0; }

bool is_bounded_cache(PyObject* wrapper) { return as_cache(wrapper)->maxsize > 0; }

bool has_room_in_cache(PyObject* wrapper) {
  return !is_bounded_cache(wrapper) || PyDict_GET_SIZE(as_cache(wrapper)->table) < as_cache(wrapper)->maxsize;
}

PyObject** cache_table_address(PyObject* wrapper) { return &as_cache(wrapper)->table; }

Owned<> cache_key(PyObject* wrapper, PyObject* args, PyObject* keywords) {
  const Py_ssize_t positional = PyTuple_GET_SIZE(args), named = keywords ? PyDict_GET_SIZE(keywords) : 0;
  const bool typed = is_typed_cache(wrapper);
  if (!typed && !named) {
    PyObject* only = positional == 1 ? PyTuple_GET_ITEM(args, 0) : args;
    return share(PyUnicode_CheckExact(only) || PyLong_CheckExact(only) ? only : args);
  }
  Owned<> key = take(PyTuple_New(positional + (named ? 2 * named + 1 : 0) + (typed ? positional + named : 0)));
  Py_ssize_t at = 0, position = 0;
  PyObject *name, *value;
  for (Py_ssize_t i = 0; i < positional; ++i) set_next(key.get(), at, PyTuple_GET_ITEM(args, i));
  if (named) set_next(key.get(), at, as_cache(wrapper)->keyword_mark);
  while (named && PyDict_Next(keywords, &position, &name, &value)) {
    set_next(key.get(), at, name);
    set_next(key.get(), at, value);
  }
  for (Py_ssize_t i = 0; typed && i < positional; ++i) set_next(key.get(), at, type_of(PyTuple_GET_ITEM(args, i)));
  position = 0;
  while (typed && named && PyDict_Next(keywords, &position, &name, &value)) set_next(key.get(), at, type_of(value));
  return key;
}

PyObject** cached_result_address(PyObject* link) {
  return types().link && Py_IS_TYPE(link, types().link) ? &reinterpret_cast<Link*>(link)->result : nullptr;
}

PyObject* cache_hit_counter() {
  PyObject* const function = once([] { return take(PyCFunction_New(&counter, nullptr)).release(); });
  return function;
}

void expect_cache_hit(PyObject* wrapper) { --as_cache(wrapper)->hits; }

}  // namespace gramme::cpython
