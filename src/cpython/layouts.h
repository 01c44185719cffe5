// Layouts of objects that CPython defines only in .c files.
#pragma once
#include "cpython/features.h"

namespace gramme::cpython::layout {

struct ODictNode {
  PyObject* key;
  Py_hash_t hash;
  ODictNode *next, *previous;
};
struct ODict {
  PyDictObject dict;
  ODictNode *first, *last;
  ODictNode** fast_nodes;
  Py_ssize_t fast_nodes_size;
  void* resize_sentinel;
  size_t state;  // rises when the order changes; move_to_end does not change the dict's version
  PyObject* instance_dict;
  PyObject* weakrefs;
};

/// _thread._local.
struct ThreadLocal {
#if GRAMME_PYTHON_LOCAL_HAS_DICTS
  PyObject_HEAD PyObject *args, *keywords, *weakrefs;
  PyObject* dicts;  // keyed by thread
#else
  PyObject_HEAD PyObject* key;  // in the thread's dict, for the holder of this object's dict
#endif
};
struct ThreadLocalDict {
  PyObject_HEAD PyObject* dict;
};

struct DefaultDict {
  PyDictObject dict;
  PyObject* default_factory;
};

constexpr Py_ssize_t kDequeBlock = 64;
struct DequeBlock {
  DequeBlock* left;
  PyObject* data[kDequeBlock];
  DequeBlock* right;
};
struct Deque {
  PyObject_VAR_HEAD DequeBlock *left_block, *right_block;
  Py_ssize_t left_index, right_index;
  size_t state;       // rises with every append and pop, not with item assignment
  Py_ssize_t maxlen;  // more follows
};

struct Partial {
  PyObject_HEAD PyObject *func, *args, *keywords;
  PyObject* dict;
  PyObject* weakrefs;
  vectorcallfunc vectorcall;
};

struct MappingProxy {
  PyObject_HEAD PyObject* mapping;
};

/// Iterator over a list, a tuple, or a list backwards.
struct ListIterator {
  PyObject_HEAD Py_ssize_t position;
  PyObject* list;  // null after its end
};
struct DictIterator {
  PyObject_HEAD PyObject* dict;  // null after its end
  Py_ssize_t size;               // of the dict at the start; -1 after a change was noticed
  Py_ssize_t position;           // as PyDict_Next counts
  PyObject* result;
  Py_ssize_t left;
};
struct RangeIterator {
#if GRAMME_PYTHON_RANGE_ITERATOR_COUNTS
  PyObject_HEAD long given, start, step, length;
  long index() const { return given; }
  void advance(long count) { given += count; }
#else
  PyObject_HEAD long start, step, length;
  long index() const { return 0; }
  void advance(long count) {
    start += count * step;
    length -= count;
  }
#endif
};
struct Enumerate {
  PyObject_HEAD Py_ssize_t index;
  PyObject *iterator, *result, *beyond;  // beyond: the number, if it exceeds a machine word
};
struct Zip {
  PyObject_HEAD Py_ssize_t size;
  PyObject *iterators, *result;
  int strict;
};

}  // namespace gramme::cpython::layout
