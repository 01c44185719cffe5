// Functions for replay that Python lacks: they make suspended generators and ended frames, and store keys under a known
// hash.
#pragma once
#include <Python.h>

namespace gramme::cpython {

/// C functions for replay; borrowed, and alive as long as the process. They run no Python code.
///
/// (function) -> a generator of the function that has ended.
PyObject* generator_maker();
/// (function) -> a frame object of the function that has ended, without variables.
PyObject* frame_maker();
/// (generator or frame, function, state, unit, places, *objects): fills variables and value stack of an object made by
/// the two functions above. `unit` is the code unit of the last instruction begun. `state` is -1 for a started
/// generator, -2 for one not started, 0 for a frame. `places` has a byte for each variable, then for each stack item: 1
/// if there is an object, 0 if it is empty.
PyObject* frame_filler();
/// (dict, key, hash, value): stores the value; the key's methods are called only if another key has the same hash.
PyObject* hashed_setter();
/// (dict, key, hash): deletes the key; its methods are called only if another key has the same hash.
PyObject* hashed_deleter();
/// (forward or backward list iterator, position): moves the iterator to this position; -1: marks it as exhausted.
PyObject* iterator_mover();
/// (iterator, count, ended): advance_iterator() of iterators.h.
PyObject* iterator_advancer();
/// A type: (iterator) -> an iterable whose iter() is this iterator.
PyObject* iterable_of();

}  // namespace gramme::cpython
