// Reads and writes the places of a set's members in its table, on which the order of iteration depends.
#include <cstring>

#include "cpython/entries.h"
#include "cpython/internal.h"
#include "cpython/objects.h"

namespace gramme::cpython {

namespace {

PySetObject* as_set(PyObject* object) { return reinterpret_cast<PySetObject*>(object); }
bool is_small(const PySetObject* set) { return set->table == set->smalltable; }
bool is_member(const setentry& entry) { return entry.key && entry.hash != -1; }

template <class Visit>
void each_member(const setentry* table, Py_ssize_t mask, Visit visit) {
  for (Py_ssize_t i = 0; i <= mask; ++i)
    if (is_member(table[i])) visit(table[i].key);
}

}  // namespace

bool place_members(PyObject* set, PyObject* like) {
  PySetObject *into = as_set(set), *from = as_set(like);
  auto slots = static_cast<size_t>(from->mask) + 1;
  auto* table = is_small(from) ? nullptr : static_cast<setentry*>(PyMem_Calloc(slots, sizeof(setentry)));
  if (!table && !is_small(from)) {
    PyErr_NoMemory();
    return false;
  }
  setentry small[PySet_MINSIZE];
  std::memcpy(small, into->smalltable, sizeof small);
  setentry* old = is_small(into) ? small : into->table;
  Py_ssize_t old_mask = into->mask;

  into->table = table ? table : into->smalltable;
  std::memcpy(into->table, from->table, slots * sizeof(setentry));
  into->fill = from->fill;
  into->used = from->used;
  into->mask = from->mask;
  into->finger = from->finger;
  into->hash = -1;
  each_member(into->table, into->mask, [](PyObject* key) { Py_INCREF(key); });
  each_member(old, old_mask, [](PyObject* key) { Py_DECREF(key); });  // last, since finalizers may look at the set
  if (old != small) PyMem_Free(old);
  return true;
}

bool same_places(PyObject* a, PyObject* b, bool (*same)(PyObject*, PyObject*)) {
  PySetObject *x = as_set(a), *y = as_set(b);
  if (x->used != y->used || x->fill != y->fill || x->mask != y->mask) return false;
  for (Py_ssize_t i = 0; i <= x->mask; ++i) {
    const setentry &left = x->table[i], &right = y->table[i];
    if (left.hash != right.hash || is_member(left) != is_member(right)) return false;
    if (is_member(left) && left.key != right.key && !same(left.key, right.key)) return false;
  }
  return true;
}

PyObject* set_member(PyObject* set, Py_ssize_t index) {
  Py_ssize_t at = 0;
  PyObject* key = nullptr;
  Py_hash_t hash;
  while (next_member(set, &at, &key, &hash))
    if (index-- == 0) return key;
  return nullptr;
}

}  // namespace gramme::cpython
