// Reads the C wrapper of functools.lru_cache without running Python.
#pragma once
#include <Python.h>

#include "base/ref.h"

namespace gramme::cpython {

/// True for a wrapper of exactly that type that stores results (maxsize is not 0).
bool is_lru_cache(PyObject* object);
/// True for typed=True: keys include the types of the arguments.
bool is_typed_cache(PyObject* wrapper);
/// True if the cache drops old entries when full. Its table holds links; tables of unbounded caches hold the results.
bool is_bounded_cache(PyObject* wrapper);
/// True if a new key would displace none.
bool has_room_in_cache(PyObject* wrapper);
/// The address of the wrapper's table, a dict, which is the same as long as the wrapper lives.
PyObject** cache_table_address(PyObject* wrapper);
/// The key of a call, as the wrapper makes it.
Owned<> cache_key(PyObject* wrapper, PyObject* args, PyObject* keywords);
/// The address of the result in a link of a bounded cache; null if the object is no link.
PyObject** cached_result_address(PyObject* link);

/// A function (wrapper, key): does what a cache hit does. Does nothing if the key is gone; it never calls the wrapped
/// function.
PyObject* cache_hit_counter();
/// Corrects the count for an entry made ahead of its call, which will count as a hit.
void expect_cache_hit(PyObject* wrapper);

}  // namespace gramme::cpython
