// What a replay calls that Python has no function for: generators that stand in the middle of their code, frames that
// have ended, keys stored under a known hash.
#pragma once
#include <Python.h>

namespace gramme::cpython {

/// C functions for a replay to call; borrowed, they live as long as the process. Nothing they do runs Python code.
///
/// (function) -> a generator of it that is over.
PyObject* generator_maker();
/// (function) -> a frame object of it that was left, without variables.
PyObject* frame_maker();
/// (generator or frame, function, state, unit, places, *objects): one made by these gets its variables and value stack.
/// `unit` is the code unit of the last instruction begun; `state` -1: a generator that was started, -2: one
/// that was not, 0: a frame. `places` has a byte for each variable, then for each stack item: 1 if an object stands
/// there, 0 if nothing does.
PyObject* frame_filler();
/// (dict, key, hash, value): stores it; the key is asked nothing if no other key has its hash.
PyObject* hashed_setter();
/// (dict, key, hash): deletes the key, which is asked nothing if no other key has its hash.
PyObject* hashed_deleter();
/// (list's iterator, backwards or not, position): it goes on from there; -1: it is at its end for good.
PyObject* iterator_mover();
/// (iterator, count, ended): advance_iterator() of iterators.h.
PyObject* iterator_advancer();
/// A type: (iterator) -> an iterable that gives just this iterator.
PyObject* iterable_of();

}  // namespace gramme::cpython
