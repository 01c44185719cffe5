// The wrapper in C of functools.lru_cache: what it keeps, read without running Python.
#pragma once
#include <Python.h>

#include "base/ref.h"

namespace gramme::cpython {

/// A wrapper of exactly that type, which keeps something (maxsize is not 0).
bool is_lru_cache(PyObject* object);
/// With typed=True the keys hold the types of the arguments.
bool is_typed_cache(PyObject* wrapper);
/// True if a full one forgets the oldest. Its table holds links, others hold the results themselves.
bool is_bounded_cache(PyObject* wrapper);
/// True if a new key would push none out.
bool has_room_in_cache(PyObject* wrapper);
/// Where the wrapper keeps its table, a dict. The same one as long as the wrapper lives.
PyObject** cache_table_address(PyObject* wrapper);
/// What the table has under the call's key is looked up by: as the wrapper itself makes it.
Owned<> cache_key(PyObject* wrapper, PyObject* args, PyObject* keywords);
/// Where a link of a bounded cache keeps the result; null if it is none.
PyObject** cached_result_address(PyObject* link);

/// (wrapper, key): what a call does that finds the key. Nothing if it is gone by then: never calls the function.
PyObject* cache_hit_counter();
/// The call that made the entry is still to come, and will count as a hit.
void expect_cache_hit(PyObject* wrapper);

}  // namespace gramme::cpython
